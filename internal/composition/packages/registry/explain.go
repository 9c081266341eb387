package registry

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	remotetransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// explain adds to an error which package it is about, and what to do.
func explain(r xpkg.Reference, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", r, err)
	var refused *remotetransport.Error
	var authority x509.UnknownAuthorityError
	switch {
	case errors.Is(err, errNotCached):
		return fmt.Errorf("%w, and the pull policy Never asks no registry", err)
	case errors.As(err, &authority):
		return fmt.Errorf("%w; name the certificate of its authority in the CA bundle", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: the registry took too long", err)
	case !errors.As(err, &refused):
		return err
	}
	switch refused.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w; the registry needs other credentials, or the package does not exist", err)
	case http.StatusNotFound:
		return fmt.Errorf("%w; there is no such package, or it needs credentials", err)
	}
	return err
}
