// Package sandbox is the provider of the sandbox cloud: kinds whose external
// resources live in a small cloud on disk. It is what the demo composes, and what
// authors of providers may read: a client is a handful of calls, and the rest is
// the runtime's.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Tags by which resources of the cloud are marked.
const (
	markTag  = "espalier-binding"
	ownerTag = "espalier-owner"
)

// kind is what is different from kind to kind.
type kind[M managed.Object] struct {
	typ   cloud.Type
	scope func(M) string
	// wanted is what the resource is to be; of what isn't said it is what is there,
	// and, for one that isn't there, what is said for its creation.
	wanted func(m M, there *cloud.Resource) cloud.Properties
	// show is what status.atProvider tells.
	show func(cloud.Resource) map[string]any
	// chosen are the fields of forProvider, named as show names them, that the cloud
	// chooses where nobody says.
	chosen []string
	// connection is what is needed to connect; nil for kinds that nobody connects to.
	connection func(cloud.Resource) map[string][]byte
}

// Cloud is what the provider asks of the sandbox cloud: a [cloud.Cloud], or a
// [cloud.Faulty].
type Cloud interface {
	Behaviour(cloud.Type) cloud.Behaviour
	Get(cloud.Key) (cloud.Resource, error)
	List(cloud.Query) ([]cloud.Resource, error)
	Call(cloud.Request) (cloud.Operation, error)
	GetOperation(id string) (cloud.Operation, error)
}

// client talks to the cloud about one managed resource.
type client[M managed.Object] struct {
	kind[M]
	cloud Cloud
	// last is what was last observed, of which an update keeps what isn't said.
	last cloud.Resource
}

// caps says what the cloud can do for a type, as it behaves now.
func caps(c Cloud, t cloud.Type) external.Caps {
	b := c.Behaviour(t)
	out := external.Caps{
		TokenTTL: b.TokenTTL, Settle: max(b.CreateLag, b.DeleteLag), Reuse: b.ReuseAfter,
		Marked: b.Tags != cloud.TagsNone, Findable: b.Tags == cloud.TagsFindable || b.Tags == "",
	}
	if b.Naming == cloud.ProviderAssigned {
		out.Naming = external.ProviderAssigned
	}
	return out
}

// Identify names the place by scope, type and, where we name it, name.
func (c *client[M]) Identify(m M) (external.Key, error) {
	key := external.Key{Scope: c.scope(m), Type: string(c.typ)}
	if caps(c.cloud, c.typ).Naming == external.CallerAssigned {
		key.Name = m.GetName()
		if said := m.GetAnnotations()[resource.ExternalNameAnnotation]; said != "" {
			key.Name = said
		}
	}
	return key, nil
}

// Observe looks at a resource.
func (c *client[M]) Observe(_ context.Context, m M, ref external.Ref) (external.Observation, error) {
	r, err := c.cloud.Get(c.key(m, ref))
	if errors.Is(err, cloud.NotFound) {
		return external.Observation{Presence: external.Absent}, nil
	}
	if err != nil {
		return external.Observation{}, err
	}
	c.last = r
	return c.seen(m, r), nil
}

func (c *client[M]) key(m M, ref external.Ref) cloud.Key {
	return cloud.Key{Type: c.typ, Scope: c.scope(m), ID: string(ref)}
}

func (c *client[M]) seen(m M, r cloud.Resource) external.Observation {
	o := external.Observation{
		Presence: external.Present, Ref: external.Ref(r.ID), Created: r.Created,
		State: string(r.State), Message: r.Message, Ready: external.No, AtProvider: c.show(r),
	}
	o.LateInit = c.late(m, o.AtProvider)
	if id := r.Tags[markTag]; id != "" {
		o.Mark = &external.Mark{ID: id, Owner: r.Tags[ownerTag]}
	}
	switch r.State {
	case cloud.Deleting:
		o.Presence = external.Deleting
	case cloud.Active:
		o.Ready = external.Yes
	default:
	}
	if c.connection != nil {
		o.Connection = c.connection(r)
	}
	o.UpToDate, o.Diff = compare(c.wanted(m, &r), r)
	return o
}

// late is what the cloud has chosen of what nobody has said.
func (c *client[M]) late(m M, shown map[string]any) map[string]any {
	said, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		return nil // nobody is told what can't be told
	}
	out := map[string]any{}
	for _, field := range c.chosen {
		if _, ok, _ := unstructured.NestedFieldNoCopy(said, "spec", "forProvider", field); !ok {
			out[field] = shown[field]
		}
	}
	return out
}

// compare says whether a resource is as wanted. While it changes, that can't be
// told.
func compare(wanted cloud.Properties, r cloud.Resource) (external.Answer, string) {
	if r.State != cloud.Active && r.State != cloud.Failed {
		return external.CannotTell, ""
	}
	want, is := encoded(wanted), encoded(r.Properties)
	if want == is && r.State == cloud.Active {
		return external.Yes, ""
	}
	return external.No, fmt.Sprintf("it is %s, and is to be %s", is, want)
}

func encoded(p cloud.Properties) string {
	raw, err := json.Marshal(p)
	if err != nil {
		panic("sandbox: " + err.Error()) // texts, numbers and lists of them
	}
	return string(raw)
}

// Find lists what carries a mark, or an owner's.
func (c *client[M]) Find(_ context.Context, m M, key external.Key, mark external.Mark) ([]external.Observation, error) {
	tags := map[string]string{markTag: mark.ID}
	if mark.ID == "" {
		tags = map[string]string{ownerTag: mark.Owner}
	}
	found, err := c.cloud.List(cloud.Query{Type: c.typ, Scope: key.Scope, Tags: tags})
	if err != nil {
		return nil, err
	}
	var out []external.Observation
	for _, r := range found {
		out = append(out, c.seen(m, r))
	}
	return out, nil
}

// Prepare freezes the properties.
func (c *client[M]) Prepare(m M, verb external.Verb, seen external.Observation) (external.Request, error) {
	if verb == external.Delete {
		return nil, nil
	}
	var there *cloud.Resource
	if verb == external.Update {
		if c.last.ID != string(seen.Ref) {
			return nil, fmt.Errorf("%s wasn't looked at", seen.Ref)
		}
		there = &c.last
	}
	return external.Request(encoded(c.wanted(m, there))), nil
}

// Begin makes the one call of the intent.
func (c *client[M]) Begin(_ context.Context, m M, i external.Intent) (external.Op, error) {
	request := cloud.Request{Key: c.key(m, i.Ref), Token: i.Token}
	switch i.Verb {
	case external.Create:
		request.Verb, request.Key = cloud.VerbCreate, cloud.Key{Type: c.typ, Scope: i.Key.Scope, ID: i.Key.Name}
		if caps(c.cloud, c.typ).Marked && i.Mark.ID != "" {
			request.Tags = map[string]string{markTag: i.Mark.ID, ownerTag: i.Mark.Owner}
		}
	case external.Update:
		request.Verb = cloud.VerbUpdate
	case external.Delete:
		request.Verb = cloud.VerbDelete
	}
	if i.Verb != external.Delete {
		if err := json.Unmarshal(i.Request, &request.Properties); err != nil {
			return external.Op{Err: &external.OpError{Class: external.Rejected, Message: err.Error()}}, nil
		}
	}
	op, err := c.cloud.Call(request)
	if i.Verb == external.Delete && errors.Is(err, cloud.NotFound) {
		return external.Op{Done: true}, nil // a look confirms it
	}
	return answer(op, err), nil
}

// Poll asks how an operation is.
func (c *client[M]) Poll(_ context.Context, _ M, was external.Op) (external.Op, error) {
	op, err := c.cloud.GetOperation(was.Resume)
	if errors.Is(err, cloud.NotFound) {
		return external.Op{Done: true, Err: &external.OpError{Class: external.Failed, Code: string(cloud.NotFound), Message: "the operation is forgotten"}}, nil
	}
	if err != nil {
		return external.Op{}, err
	}
	return answer(op, nil), nil
}

// soonest is how soon an operation is asked for again at most.
const soonest = 50 * time.Millisecond

// answer is what the cloud says of a call, or of an operation.
func answer(op cloud.Operation, err error) external.Op {
	var refused *cloud.Error
	switch {
	case errors.As(err, &refused):
		return external.Op{Err: opError(refused)}
	case err != nil:
		return external.Op{Err: &external.OpError{Message: err.Error()}}
	}
	out := external.Op{Done: op.Done(), Resume: op.ID, Ref: external.Ref(op.Resource.ID), State: string(op.Status)}
	switch {
	case op.Error != nil:
		out.Err = opError(op.Error)
		out.Err.Class = external.Failed
	case !out.Done:
		out.RetryAfter = max(soonest, op.RetryAfter)
	}
	return out
}

func opError(e *cloud.Error) *external.OpError {
	out := &external.OpError{Class: external.Rejected, Code: string(e.Code), Message: e.Message, RetryAfter: e.RetryAfter}
	switch e.Code {
	case cloud.Timeout, cloud.Unavailable:
		out.Class = external.Ambiguous
	case cloud.IdempotencyMismatch:
		out.Mismatch = true
	default:
	}
	return out
}
