package managed

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// Kind is a kind of managed resources that the runtime can serve.
type Kind struct{ port port.Kind }

// Port returns the kind for the runtime.
func (k Kind) Port() port.Kind { return k.port }

// Definition defines a kind of managed resources.
type Definition[M Object] struct {
	// Kind is the kind with the version of the Go type.
	Kind schema.GroupVersionKind
	// New returns an empty object of the kind. A kind without a Go type has
	// *unstructured.Unstructured.
	New func() M
	// Caps returns what the external API can do for the kind. It is called at the
	// beginning of each reconcile.
	Caps func() external.Caps
	// References are the fields of spec.forProvider that take their values from another managed resource. They are
	// resolved before Connect is called.
	References []Reference
	// Timeout limits each call of a client; a minute by default. A call that changes
	// something is also canceled when its process's leadership ends.
	Timeout time.Duration
	// PollInterval is how often an external resource is observed without an event, for an API with limits that don't
	// allow it more often; the runtime's interval applies if it is longer. The annotation crossplane.io/poll-interval
	// overrides both.
	PollInterval time.Duration
	// MaxPollInterval is set for an API where each observation counts: the longer nothing changes,
	// the less often an external resource is observed, up to a quarter as often and at least each
	// MaxPollInterval. One that is not ready is observed up to five times as often for an hour after
	// a change. If it is 0, the interval stays the same.
	MaxPollInterval time.Duration
	// Connect returns a client for one managed resource, with its provider configuration.
	// If the client has a method Close() error, that is called at the end of the reconcile.
	// The client may keep the Objects until then.
	Connect func(context.Context, Objects, M) (Client[M], error)
}

// Reference is a field of spec.forProvider that takes its value from another managed resource, which is named or
// selected.
type Reference = port.Reference

// Objects reads other objects from the API server for a client, such as a ProviderConfig and its Secret. Objects that
// were read are watched, so a change brings another reconcile. Get returns nil for an object that does not exist.
// Connect has to return an error of Get as it is, or wrapped: while a cache is not synced yet, the runtime reports no
// failure. Owner returns the managed resource that an external resource belongs to, nil if there is none in this
// cluster, by the Binding and not by a mark on the external resource, which other clients might be able to write. The
// same holds for its errors and for changes.
type Objects = port.Objects

// For returns the kind of a definition. The object that a client gets is its own copy.
func For[M Object](d Definition[M]) Kind {
	return Kind{port.Kind{GVK: d.Kind, Caps: d.Caps, References: d.References, Timeout: d.Timeout, PollInterval: d.PollInterval,
		MaxPollInterval: d.MaxPollInterval, Connect: func(ctx context.Context, objects port.Objects, o *unstructured.Unstructured) (port.Session, error) {
			m := d.New()
			if err := decode(o, m); err != nil {
				return nil, fmt.Errorf("decode the object as %T: %w", m, err)
			}
			client, err := d.Connect(ctx, objects, m)
			if err != nil {
				return nil, err
			}
			return session[M]{client, m}, nil
		}}}
}

// decode decodes an object, which is shared with caches, into one of a provider's Go type.
func decode(o *unstructured.Unstructured, m Object) error {
	if u, ok := m.(*unstructured.Unstructured); ok {
		o.DeepCopyInto(u)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, m)
}

// session is a client with the object that it was connected for.
type session[M Object] struct {
	client Client[M]
	object M
}

// Object returns the object that the client gets. The conformance tests check that the client
// does not change it.
func (s session[M]) Object() runtime.Object { return s.object }

func (s session[M]) Identify() (external.Key, error) { return s.client.Identify(s.object) }

func (s session[M]) Observe(ctx context.Context, ref external.Ref) (external.Observation, error) {
	return s.client.Observe(ctx, s.object, ref)
}

func (s session[M]) Find(ctx context.Context, key external.Key, mark external.Mark) ([]external.Observation, error) {
	return s.client.Find(ctx, s.object, key, mark)
}

func (s session[M]) Prepare(verb external.Verb, observed external.Observation) (external.Request, error) {
	return s.client.Prepare(s.object, verb, observed)
}

func (s session[M]) WriteOnlyDigest() string {
	if c, ok := s.client.(WriteOnlyDigester[M]); ok {
		return c.WriteOnlyDigest(s.object)
	}
	return ""
}

func (s session[M]) Begin(ctx context.Context, intent external.Intent) (external.Op, error) {
	return s.client.Begin(ctx, s.object, intent)
}

func (s session[M]) Poll(ctx context.Context, op external.Op) (external.Op, error) {
	return s.client.Poll(ctx, s.object, op)
}

func (s session[M]) Close() error {
	if c, ok := s.client.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}
