// Package sandbox is the provider of the sandbox cloud, a simulated cloud in memory or in a
// file. The demo composes its kinds, and it is an example for authors of providers.
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

// Tags of a resource with its mark.
const (
	markTag  = "espalier-binding"
	ownerTag = "espalier-owner"
)

// kind has what differs between the kinds.
type kind[M managed.Object] struct {
	typ   cloud.Type
	scope func(M) string
	// wanted returns the desired properties. Unset ones are those of the current resource, or,
	// if current is nil, those of initProvider.
	wanted func(m M, current *cloud.Resource) cloud.Properties
	// atProvider returns status.atProvider.
	atProvider func(cloud.Resource) map[string]any
	// lateInit are the fields of forProvider and status.atProvider that the cloud chooses if
	// they are unset.
	lateInit []string
	// connection returns the connection details; nil for kinds without any.
	connection func(cloud.Resource) map[string][]byte
}

// Cloud is the part of the cloud's API that the provider uses. [cloud.Cloud] and
// [cloud.Faulty] implement it.
type Cloud interface {
	Behaviour(cloud.Type) cloud.Behaviour
	Get(cloud.Key) (cloud.Resource, error)
	List(cloud.Query) ([]cloud.Resource, error)
	Call(cloud.Request) (cloud.Operation, error)
	GetOperation(id string) (cloud.Operation, error)
}

// client implements managed.Client for one managed resource.
type client[M managed.Object] struct {
	kind[M]
	cloud Cloud
	// last is the last observed resource. An update keeps its properties that are unset in the
	// spec.
	last cloud.Resource
}

// caps returns the capabilities of the cloud for a type, by its current behaviour.
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

// Identify returns a key of scope and type, and the name if the caller assigns names.
func (c *client[M]) Identify(m M) (external.Key, error) {
	key := external.Key{Scope: c.scope(m), Type: string(c.typ)}
	if caps(c.cloud, c.typ).Naming == external.CallerAssigned {
		key.Name = m.GetName()
		if annotation := m.GetAnnotations()[resource.ExternalNameAnnotation]; annotation != "" {
			key.Name = annotation
		}
	}
	return key, nil
}

// Observe reads a resource.
func (c *client[M]) Observe(_ context.Context, m M, ref external.Ref) (external.Observation, error) {
	r, err := c.cloud.Get(c.key(m, ref))
	if errors.Is(err, cloud.NotFound) {
		return external.Observation{Presence: external.Absent}, nil
	}
	if err != nil {
		return external.Observation{}, err
	}
	c.last = r
	return c.observation(m, r), nil
}

func (c *client[M]) key(m M, ref external.Ref) cloud.Key {
	return cloud.Key{Type: c.typ, Scope: c.scope(m), ID: string(ref)}
}

func (c *client[M]) observation(m M, r cloud.Resource) external.Observation {
	o := external.Observation{
		Presence: external.Present, Ref: external.Ref(r.ID), Created: r.Created,
		State: string(r.State), Message: r.Message, Ready: external.No, AtProvider: c.atProvider(r),
	}
	o.LateInit = c.lateInitialized(m, o.AtProvider)
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

// lateInitialized returns the values that the cloud has chosen for unset fields.
func (c *client[M]) lateInitialized(m M, shown map[string]any) map[string]any {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		return nil // nothing is late-initialized
	}
	out := map[string]any{}
	for _, field := range c.lateInit {
		if _, ok, _ := unstructured.NestedFieldNoCopy(object, "spec", "forProvider", field); !ok {
			out[field] = shown[field]
		}
	}
	return out
}

// compare reports whether a resource is as wanted, and the difference. While an operation
// changes it, that is unknown.
func compare(wanted cloud.Properties, r cloud.Resource) (external.Answer, string) {
	if r.State != cloud.Active && r.State != cloud.Failed {
		return external.CannotTell, ""
	}
	want, is := encode(wanted), encode(r.Properties)
	if want == is && r.State == cloud.Active {
		return external.Yes, ""
	}
	return external.No, fmt.Sprintf("the properties are %s, and should be %s", is, want)
}

func encode(p cloud.Properties) string {
	raw, err := json.Marshal(p)
	if err != nil {
		panic("sandbox: " + err.Error()) // the fields cannot fail
	}
	return string(raw)
}

// Find lists the resources with a mark, or with marks of an owner.
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
		out = append(out, c.observation(m, r))
	}
	return out, nil
}

// Prepare returns the desired properties.
func (c *client[M]) Prepare(m M, verb external.Verb, observed external.Observation) (external.Request, error) {
	if verb == external.Delete {
		return nil, nil
	}
	var current *cloud.Resource
	if verb == external.Update {
		if c.last.ID != string(observed.Ref) {
			return nil, fmt.Errorf("Prepare was called before Observe %q", observed.Ref)
		}
		current = &c.last
	}
	return external.Request(encode(c.wanted(m, current))), nil
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
		return external.Op{Done: true}, nil // an observation confirms it
	}
	return toOp(op, err), nil
}

// Poll returns the state of an operation.
func (c *client[M]) Poll(_ context.Context, _ M, was external.Op) (external.Op, error) {
	op, err := c.cloud.GetOperation(was.Resume)
	if errors.Is(err, cloud.NotFound) {
		return external.Op{Done: true, Err: &external.OpError{Class: external.Failed, Code: string(cloud.NotFound),
			Message: "the operation is unknown, and may have been removed after its end"}}, nil
	}
	if err != nil {
		return external.Op{}, err
	}
	return toOp(op, nil), nil
}

// minRetryAfter is the shortest interval of polls.
const minRetryAfter = 50 * time.Millisecond

// toOp converts an operation of the cloud, or the error of a call.
func toOp(op cloud.Operation, err error) external.Op {
	var cloudErr *cloud.Error
	switch {
	case errors.As(err, &cloudErr):
		return external.Op{Err: opError(cloudErr)}
	case err != nil:
		return external.Op{Err: &external.OpError{Message: err.Error()}}
	}
	out := external.Op{Done: op.Done(), Resume: op.ID, Ref: external.Ref(op.Resource.ID), State: string(op.Status)}
	switch {
	case op.Error != nil:
		out.Err = opError(op.Error)
		out.Err.Class = external.Failed
	case !out.Done:
		out.RetryAfter = max(minRetryAfter, op.RetryAfter)
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
