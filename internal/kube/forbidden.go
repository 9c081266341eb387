package kube

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// forbidden is an answer that forbids a request, with what was asked for: the answer itself
// says so only in a text, which may come from an admission webhook and quote the object.
type forbidden struct {
	error
	verb, subresource string
}

func (f forbidden) Unwrap() error { return f.error }

// attempted notes on an error that forbids a request what was attempted.
func attempted(verb, subresource string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return forbidden{err, verb, subresource}
}

// attempt is the right to what a request attempted that was forbidden, as far as that was
// noted.
func attempt(err error) (need rbac.Need, ok bool) {
	var f forbidden
	var status apierrors.APIStatus
	if !errors.As(err, &f) || !errors.As(f.error, &status) {
		return need, false
	}
	details := status.Status().Details
	if details == nil || details.Kind == "" {
		return need, false
	}
	need = rbac.Need{Verb: f.verb, Group: details.Group, Resource: details.Kind} // the server has the resource there
	if f.subresource != "" {
		need.Resource += "/" + f.subresource
	}
	return need, true
}

// Remedy is what to do about a write to a definition that is forbidden, as the end of a
// sentence that says so; empty for other errors.
func Remedy(err error) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	return ". Unless an admission policy forbids it, grant the controllers the role that 'espalier rbac --controllers' prints"
}
