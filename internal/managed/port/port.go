// Package port is how the controller of managed resources sees a provider: without
// its Go types.
package port

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Kind is a kind of managed resources.
type Kind struct {
	GVK  schema.GroupVersionKind
	Caps func() external.Caps
	// References are resolved before Connect.
	References []Reference
	// Timeout is how long a call may take; 0 for the runtime's own limit.
	Timeout time.Duration
	Connect func(context.Context, Objects, *unstructured.Unstructured) (Session, error)
}

// Objects reads objects of the API server: see managed.Objects.
type Objects interface {
	Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
}

// ErrNotYet is about what is still being read for the first time: it is no failure,
// and an event brings another pass.
var ErrNotYet = errors.New("it is being looked up")

// Reference is a field of spec.forProvider that takes the identity of another managed
// resource.
type Reference struct {
	// Field is the field's name in spec.forProvider, such as networkID.
	Field string
	// Ref and Selector are the fields that name and select the other; Field with
	// "Ref" and "Selector" behind it by default.
	Ref, Selector string
	// List says that the field is a list, and that of references as well.
	List bool
	// To is the kind of the other.
	To schema.GroupVersionKind
	// Extract reads what the field takes of the other; its external name by default.
	// It is empty while there is none.
	Extract func(*unstructured.Unstructured) string
}

// Session is a provider's client, connected for one managed resource: see
// managed.Client.
type Session interface {
	Identify() (external.Key, error)
	Observe(context.Context, external.Ref) (external.Observation, error)
	Find(context.Context, external.Key, external.Mark) ([]external.Observation, error)
	Prepare(external.Verb, external.Observation) (external.Request, error)
	Begin(context.Context, external.Intent) (external.Op, error)
	Poll(context.Context, external.Op) (external.Op, error)
	Close() error
}
