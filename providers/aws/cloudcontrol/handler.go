package cloudcontrol

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// handlerCaps returns what a handler can do: it has neither tokens nor marks.
func handlerCaps(t *resourcetype.Type, h hook.Handler, o Options) external.Caps {
	caps := external.Caps{Settle: o.Settle}
	if h.Identifier(sample(t)) == "" {
		caps.Naming = external.ProviderAssigned
	}
	return caps
}

// sample returns properties of the types that the schema names, to see whether they determine an identifier.
func sample(t *resourcetype.Type) map[string]any {
	out := map[string]any{}
	for name, s := range t.Properties {
		switch s = t.Resolve(s); {
		case s == nil || resourcetype.Has(t.ReadOnlyProperties, resourcetype.Path{name}):
		case hasType(s, "string"):
			out[name] = "1"
		case hasType(s, "integer"), hasType(s, "number"):
			out[name] = int64(1)
		case hasType(s, "boolean"):
			out[name] = false
		}
	}
	return out
}

func hasType(s *resourcetype.Schema, name string) bool { return slices.Contains(s.Types, name) }

// handled is the client of a type that a handler serves instead of Cloud Control.
type handled struct {
	*client
	handler hook.Handler
	// earlier are the resources that existed before the creation was decided.
	earlier []string
	// created are connection details that only the creation has returned.
	created map[string][]byte
}

// connectHandler returns the client of a managed resource that a handler serves.
func (c *client) connectHandler(ctx context.Context) (managed.Client[*unstructured.Unstructured], error) {
	h := &handled{client: c, handler: c.hooks.Handler}
	isNamed := c.object.GetAnnotations()[resource.ExternalNameAnnotation] != ""
	if c.caps.Naming == external.CallerAssigned || isNamed || c.object.GetDeletionTimestamp() != nil {
		return h, nil
	}
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return nil, err
	}
	var err error
	h.earlier, err = h.handler.List(ctx, c.account.Config, c.creation)
	c.account.Limiter.Report(err)
	if err != nil {
		return nil, c.readError("list", err)
	}
	slices.Sort(h.earlier)
	return h, nil
}

// Identify returns the identifier that the properties determine.
func (h *handled) Identify(m *unstructured.Unstructured) (external.Key, error) {
	key := external.Key{Scope: h.account.Scope, Type: h.Type.Name}
	if h.caps.Naming == external.ProviderAssigned {
		return key, nil
	}
	if key.Name = m.GetAnnotations()[resource.ExternalNameAnnotation]; key.Name == "" {
		key.Name = h.handler.Identifier(h.creation)
	}
	if key.Name == "" {
		return key, fmt.Errorf("spec.forProvider does not determine the identifier of %s; set its required properties", h.Type.Name)
	}
	return key, nil
}

// Observe reads a resource.
func (h *handled) Observe(ctx context.Context, m *unstructured.Unstructured, ref external.Ref) (external.Observation, error) {
	o, err := h.client.Observe(ctx, m, ref)
	o.Connection = merged(o.Connection, h.created)
	return o, err
}

// readHandled reads a resource with the handler of its type.
func (c *client) readHandled(ctx context.Context, identifier string) (properties map[string]any, found bool, err error) {
	r, err := c.hooks.Handler.Read(ctx, c.account.Config, identifier)
	if err != nil || r == nil {
		return nil, false, err
	}
	return r.Properties, true, nil
}

// handledRequest is the content of a call of a handler.
type handledRequest struct {
	Desired any            `json:"desired,omitempty"`
	Earlier []string       `json:"earlier,omitempty"`
	Secrets []placedSecret `json:"secrets,omitempty"`
}

// maxEarlier bounds the resources that exist before a creation: a request names all of them.
const maxEarlier = 1000

// Prepare returns the desired state.
func (h *handled) Prepare(_ *unstructured.Unstructured, verb external.Verb, seen external.Observation) (external.Request, error) {
	desired, r := h.wanted, handledRequest{}
	switch verb {
	case external.Create:
		if len(h.earlier) > maxEarlier {
			return nil, fmt.Errorf("there are %d resources of type %s beside this one; at most %d are supported", len(h.earlier), h.Type.Name, maxEarlier)
		}
		desired, r.Earlier = h.creation, h.earlier
	case external.Update:
		if h.last == nil || h.last.ref != seen.Ref {
			return nil, fmt.Errorf("Prepare was called before Observe %q", seen.Ref)
		}
		if len(h.last.comparison.Immutable().Differences) > 0 {
			return nil, h.immutableError()
		}
	case external.Delete:
		return nil, nil
	}
	if h.secretErr != nil {
		return nil, h.secretErr
	}
	r.Desired, r.Secrets = withoutSecretRefs(desired, "desired")
	return encodeRequest(r)
}

// Begin calls the handler, whose calls are done when they return.
func (h *handled) Begin(ctx context.Context, _ *unstructured.Unstructured, i external.Intent) (external.Op, error) {
	desired, earlier, err := h.decode(i)
	if err != nil {
		return external.Op{Err: &external.OpError{Class: external.Rejected, Message: bounded(err.Error())}}, nil
	}
	if err := h.account.Limiter.Wait(ctx, writes); err != nil {
		return external.Op{Err: notSent(err)}, nil
	}
	op := external.Op{Done: true, Ref: i.Ref}
	switch i.Verb {
	case external.Create:
		var created hook.Created
		created, err = h.handler.Create(ctx, h.account.Config, desired, earlier)
		op.Ref, h.created = external.Ref(created.Identifier), created.Connection
	case external.Update:
		err = h.handler.Update(ctx, h.account.Config, string(i.Ref), desired)
	case external.Delete:
		err = h.handler.Delete(ctx, h.account.Config, string(i.Ref))
	}
	h.account.Limiter.Report(err)
	var lost *hook.LostError
	switch {
	case errors.As(err, &lost):
		return external.Op{Err: &external.OpError{Class: external.Rejected, Mismatch: true, Message: bounded(lost.Message)}}, nil
	case err != nil:
		return external.Op{Err: h.callError(i.Verb, err)}, nil
	}
	return op, nil
}

func (h *handled) decode(i external.Intent) (desired map[string]any, earlier []string, err error) {
	if i.Verb == external.Delete {
		return nil, nil, nil
	}
	stored, err := h.storedRequest(i.Request)
	if err != nil {
		return nil, nil, err
	}
	all, _ := stored["earlier"].([]any)
	for _, id := range all {
		earlier = append(earlier, fmt.Sprint(id))
	}
	desired, _ = stored["desired"].(map[string]any)
	return desired, earlier, nil
}

// Find is not called: a handler has no marks.
func (*handled) Find(context.Context, *unstructured.Unstructured, external.Key, external.Mark) ([]external.Observation, error) {
	return nil, errors.New("resources that a handler serves have no marks")
}

// Poll is not called: an operation is done when Begin returns.
func (*handled) Poll(context.Context, *unstructured.Unstructured, external.Op) (external.Op, error) {
	return external.Op{}, errors.New("there is no operation to poll")
}
