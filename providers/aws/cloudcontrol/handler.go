package cloudcontrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// A handler has no tokens, and no search.
func handlerCaps(t *resourcetype.Type, h hook.Handler, o Options) external.Caps {
	caps := external.Caps{Settle: o.Settle}
	if h.Identifier(sample(t)) == "" {
		caps.Naming = external.ProviderAssigned
	}
	return caps
}

// The properties have the types that the schema names: they show whether properties determine an identifier.
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

// A handler serves the type instead of Cloud Control.
type handled struct {
	*client
	handler hook.Handler
	// earlier are the resources that existed before the creation was decided.
	earlier []string
	// created are connection details that only the creation has returned.
	created map[string][]byte
}

func (c *client) connectHandler(ctx context.Context) (managed.Client[*unstructured.Unstructured], error) {
	h := &handled{client: c, handler: c.hooks.Handler}
	if c.hasName() {
		c.setIdentifier()
	}
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

// The identifier is one property, a name. The object's name stands for it.
func (c *client) hasName() bool {
	return len(c.Type.PrimaryIdentifier) == 1 && !model.IsServerAssigned(c.Type)
}

// Identify returns the identifier that the properties determine.
func (h *handled) Identify(m *unstructured.Unstructured) (external.Key, error) {
	key := external.Key{Scope: h.account.Scope, Type: h.Type.Name}
	switch {
	case h.caps.Naming == external.ProviderAssigned:
		return key, nil
	case h.hasName():
		return h.client.Identify(m)
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

func (c *client) readHandled(ctx context.Context, identifier string) (properties map[string]any, found bool, err error) {
	r, err := c.hooks.Handler.Read(ctx, c.account.Config, identifier)
	if err != nil || r == nil {
		return nil, false, err
	}
	c.isBusy = r.Busy
	return r.Properties, true, nil
}

type handledRequest struct {
	Desired any            `json:"desired,omitempty"`
	Earlier []string       `json:"earlier,omitempty"`
	Secrets []placedSecret `json:"secrets,omitempty"`
}

// A change that was refused because the resource is being changed is requested again after this time.
const busyDelay = 15 * time.Second

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
		if model.Sent(h.Type, h.creation) != "" {
			desired = h.tagged(desired, map[string]string{model.TagSent: model.Sent(h.Type, h.wanted)})
		}
	case external.Update:
		if h.last == nil || h.last.ref != seen.Ref {
			return nil, fmt.Errorf("Prepare was called before Observe %q", seen.Ref)
		}
		if len(h.last.comparison.Immutable().Differences) > 0 {
			return nil, h.immutableError()
		}
		desired = h.withAllTags(desired)
	case external.Delete:
		return nil, nil
	}
	if h.secretErr != nil {
		return nil, h.secretErr
	}
	r.Desired, r.Secrets = withoutSecretRefs(desired, "desired")
	return encodeRequest(r)
}

// It contains all tags that the resource is to have, ours included, or none if they stay as they are.
func (h *handled) withAllTags(desired map[string]any) map[string]any {
	if h.tags.Property == "" {
		return desired
	}
	out := maps.Clone(desired)
	delete(out, h.tags.Property)
	for _, o := range h.last.patch {
		if o.Path == model.Pointer([]any{h.tags.Property}) {
			out[h.tags.Property] = o.Value
		}
	}
	return out
}

// Begin calls the handler.
func (h *handled) Begin(ctx context.Context, _ *unstructured.Unstructured, i external.Intent) (external.Op, error) {
	desired, earlier, err := h.decode(i)
	if err != nil {
		return external.Op{Err: &external.OpError{Class: external.Rejected, Message: bounded(err.Error())}}, nil
	}
	if notReady := h.prepareDeletion(ctx, i); notReady != nil {
		return external.Op{Err: notReady}, nil
	}
	if i.Verb == external.Update && h.isBusy {
		return external.Op{Err: &external.OpError{Class: external.Rejected, RetryAfter: busyDelay,
			Message: "it is being changed, and can be changed again when that has ended"}}, nil
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
		out := h.callError(i.Verb, err)
		if h.isBusy && out.RetryAfter == 0 {
			out.RetryAfter = busyDelay
		}
		return external.Op{Err: out}, nil
	}
	if h.hooks.Asynchronous {
		op.Done, op.RetryAfter = false, minPoll
		op.Resume = resume{verb: i.Verb, since: h.options.Now(), token: string(op.Ref)}.String()
	}
	return op, nil
}

// Poll reads the resource of a call that returns before it is done.
func (h *handled) Poll(ctx context.Context, _ *unstructured.Unstructured, was external.Op) (external.Op, error) {
	r, err := parseResume(was.Resume)
	if err != nil {
		return external.Op{}, err
	}
	properties, found, err := h.readOne(ctx, r.token)
	if err != nil {
		return external.Op{}, h.readError("read", err)
	}
	op := external.Op{Resume: was.Resume, Ref: external.Ref(r.token), Done: !found || !h.isBusy}
	if !op.Done {
		op.State, op.RetryAfter = bounded(h.stateOf(properties)), pollDelay(h.options.Now().Sub(r.since))
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
	if i.Verb == external.Create && h.caps.Marked && i.Mark.ID != "" {
		desired = h.tagged(desired, map[string]string{model.TagBinding: i.Mark.ID, model.TagOwner: i.Mark.Owner})
	}
	return desired, earlier, nil
}

// Find is not called: what a handler serves is found by its identifier.
func (*handled) Find(context.Context, *unstructured.Unstructured, external.Key, external.Mark) ([]external.Observation, error) {
	return nil, errors.New("resources that a handler serves are not searched")
}
