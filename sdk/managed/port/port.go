// Package port is the interface between the controller of managed resources and a provider: what
// the controller calls of a provider, and what a provider may read. It does not depend on the
// provider's Go types. The controller's interfaces to the API server are in package managed.
package port

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Kind is a kind of managed resources, as its provider serves it.
type Kind struct {
	GVK  schema.GroupVersionKind
	Caps func() external.Caps
	// References are the fields that are resolved before Connect is called.
	References []Reference
	// Timeout limits each call to the external API; 0 stands for the runtime's default.
	Timeout time.Duration
	// PollInterval is how often an external resource is observed without an event at most; 0 stands
	// for the runtime's default.
	PollInterval time.Duration
	// MaxPollInterval is the interval that an external resource at rest is observed up to, while one that is not ready
	// after a change is observed more often; 0 if the interval is constant.
	MaxPollInterval time.Duration
	Connect         func(context.Context, Objects, *unstructured.Unstructured) (Session, error)
}

// Objects reads objects from the API server; see managed.Objects.
type Objects interface {
	Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	Owner(key external.Key) (*external.Owner, error)
}

// ErrNotSynced is returned for an object of a kind with a cache that is not synced yet. It is no failure: an event
// brings another reconcile once the cache is synced.
var ErrNotSynced = errors.New("the cache is not synced yet")

// Reference is a field of spec.forProvider with a value from another managed resource.
type Reference struct {
	// Field is the field's name in spec.forProvider, such as networkID, or the path to a field of
	// objects and lists of objects in it, such as network.rules[*].groupID. The value of a field
	// in a list is not stored in spec.forProvider: only Connect gets it.
	Field string
	// Ref and Selector are the names of the fields that name and select the referenced resource,
	// in the same object as the field. By default, they are the field's name with the suffix
	// "Ref", for a list also "Refs", and "Selector".
	Ref, Selector string
	// List reports whether the field and its references are lists.
	List bool
	// To is the kind of the referenced resource.
	To schema.GroupVersionKind
	// Extract returns the field's value from the referenced resource; by default its
	// external name. It returns "" while there is no value yet.
	Extract func(*unstructured.Unstructured) string
}

// Session is a provider's client, connected for one managed resource; see managed.Client.
type Session interface {
	Identify() (external.Key, error)
	Observe(context.Context, external.Ref) (external.Observation, error)
	Find(context.Context, external.Key, external.Mark) ([]external.Observation, error)
	Prepare(external.Verb, external.Observation) (external.Request, error)
	// WriteOnlyDigest is empty for a client without write-only values; see managed.WriteOnlyDigester.
	WriteOnlyDigest() string
	Begin(context.Context, external.Intent) (external.Op, error)
	Poll(context.Context, external.Op) (external.Op, error)
	Close() error
}
