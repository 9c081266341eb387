package kube

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// forbidden is a Forbidden answer with the verb and subresource of the request. The answer
// itself names them only in its text, which may come from an admission webhook and quote
// the object.
type forbidden struct {
	error
	verb, subresource string
}

func (f forbidden) Unwrap() error { return f.error }

func withAttempt(verb, subresource string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return forbidden{err, verb, subresource}
}

// The permission is known only if withAttempt recorded it.
func forbiddenPermission(err error) (permission rbac.Permission, ok bool) {
	var f forbidden
	var status apierrors.APIStatus
	if !errors.As(err, &f) || !errors.As(f.error, &status) {
		return permission, false
	}
	details := status.Status().Details
	if details == nil || details.Kind == "" {
		return permission, false
	}
	permission = rbac.Permission{Verb: f.verb, Group: details.Group, Resource: details.Kind} // details.kind of the server holds the resource
	if f.subresource != "" {
		permission.Resource += "/" + f.subresource
	}
	return permission, true
}

// Remedy says what to do about a forbidden write to a definition, as the end of a sentence;
// empty for other errors.
func Remedy(err error) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	return ". Unless an admission policy forbids it, grant the controllers the role that 'espalier rbac --controllers' prints"
}
