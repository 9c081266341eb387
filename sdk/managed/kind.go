package managed

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Kind is a kind of managed resources, ready to be served.
type Kind struct{ port port.Kind }

// Port is the kind as the runtime sees it.
func (k Kind) Port() port.Kind { return k.port }

// Definition is what an author says of a kind.
type Definition[M Object] struct {
	// Kind is the kind's name, in the version that the Go type is of.
	Kind schema.GroupVersionKind
	// New returns an empty object of the kind.
	New func() M
	// Caps says what the external API can do for the kind. It is asked at the
	// beginning of each pass.
	Caps func() external.Caps
	// References are the fields of spec.forProvider that take the identity of another
	// managed resource. They are resolved before a client sees the object.
	References []Reference
	// Timeout is how long one call of a client may take; a minute by default. A call
	// that changes something ends with its process's leadership as well.
	Timeout time.Duration
	// Connect returns a client for one managed resource, as it is configured. The
	// client is closed, if it can be, when the pass is over. It may keep the Objects.
	Connect func(context.Context, Objects, M) (Client[M], error)
}

// Reference is a field of spec.forProvider that takes the identity of another managed
// resource: of one that is named, or that is selected.
type Reference = port.Reference

// Objects is what a client can read on the API server beside its managed resource:
// a ProviderConfig, say, and the Secret that this names. What was read is watched,
// so that a change of it brings another pass. Get returns nil for what doesn't
// exist. An error of it is to be passed on as it is, or wrapped: what can't be told
// yet is not told as a failure.
type Objects = port.Objects

// For makes a kind of its definition.
func For[M Object](d Definition[M]) Kind {
	return Kind{port.Kind{GVK: d.Kind, Caps: d.Caps, References: d.References, Timeout: d.Timeout, Connect: func(ctx context.Context, objects port.Objects, o *unstructured.Unstructured) (port.Session, error) {
		m := d.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, m); err != nil {
			return nil, fmt.Errorf("read it as %T: %w", m, err)
		}
		client, err := d.Connect(ctx, objects, m)
		if err != nil {
			return nil, err
		}
		return session[M]{client, m}, nil
	}}}
}

// session is a client with the object that it was connected for.
type session[M Object] struct {
	client Client[M]
	object M
}

// Object is what the client sees: the conformance kit looks whether it stays as it is.
func (s session[M]) Object() runtime.Object { return s.object }

func (s session[M]) Identify() (external.Key, error) { return s.client.Identify(s.object) }

func (s session[M]) Observe(ctx context.Context, ref external.Ref) (external.Observation, error) {
	return s.client.Observe(ctx, s.object, ref)
}

func (s session[M]) Find(ctx context.Context, key external.Key, mark external.Mark) ([]external.Observation, error) {
	return s.client.Find(ctx, s.object, key, mark)
}

func (s session[M]) Prepare(verb external.Verb, seen external.Observation) (external.Request, error) {
	return s.client.Prepare(s.object, verb, seen)
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
