// Package kube is the only writer of children and instances. Each write is
// one request that carries what it was decided on: the UID that was read, or the
// condition that nothing is there yet. It makes no decisions of its own.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Resolver finds the resource that serves a kind.
type Resolver interface {
	Resolve(context.Context, schema.GroupVersionKind) (Resource, error)
}

// Client writes and reads objects of any kind. It is safe for concurrent use.
type Client struct {
	dynamic dynamic.Interface
	kinds   Resolver
	rules   rules
	dryRun  []string // of applies
}

// NewClient returns a client over the given connection.
func NewClient(d dynamic.Interface, kinds Resolver) *Client {
	return &Client{dynamic: d, kinds: kinds}
}

// DryRun returns a client whose applies the API server checks and admits as it would
// others, and then doesn't store.
func (c *Client) DryRun() *Client {
	return &Client{dynamic: c.dynamic, kinds: c.kinds, dryRun: []string{metav1.DryRunAll}}
}

func (c *Client) resource(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	r, err := c.kinds.Resolve(ctx, gvk)
	if err != nil {
		return nil, err
	}
	if r.Namespaced {
		return plainly{c.dynamic.Resource(r.GVR).Namespace(namespace)}, nil
	}
	return plainly{c.dynamic.Resource(r.GVR)}, nil
}

// neverStored is a resource version that no object ever has. In a server-side
// apply it makes the write conditional: what doesn't exist is created, and what
// exists answers Conflict, whoever it belongs to. Nothing is taken over unseen.
const neverStored = "1"

// Create applies an object that isn't there yet. An object of that name that does exist is
// left alone; the error is then one of IsTaken's, and Holder is that object.
func (c *Client) Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	o.SetUID("")
	o.SetResourceVersion(neverStored)
	var err error
	for range attempts {
		var answer *unstructured.Unstructured
		if answer, err = c.apply(ctx, o, metav1.ApplyOptions{FieldManager: manager, Force: true}); !conflicts(err) {
			return answer, err
		}
		live, lookErr := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
		switch {
		case lookErr == nil:
			return nil, taken{err, live}
		case !IsObjectNotFound(lookErr, o.GetName()):
			return nil, unchanged{error: err}
		}
	}
	return nil, unchanged{error: err, seen: true}
}

// attempts is how often an object is to be created that the server says to be there and
// isn't, or deleted that it says to have changed. What had the name may have gone in between,
// but hardly twice: then no object is in the way, but an admission webhook, and no event is
// going to follow.
const attempts = 2

// taken is the error of a creation whose name an object has.
type taken struct {
	error
	holder *unstructured.Unstructured
}

func (t taken) Unwrap() error { return t.error }

// IsNameTaken says that Create found an object of that name.
func IsNameTaken(err error) bool { return Holder(err) != nil }

// Holder is the object that Create found to have the name; nil if the error is another.
func Holder(err error) *unstructured.Unstructured {
	var t taken
	if !errors.As(err, &t) {
		return nil
	}
	return t.holder
}

// Update applies an object onto the incarnation with the given UID. When that
// one is gone, nothing is written and nothing is created; see IsGone.
func (c *Client) Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	return c.onto(ctx, o, uid, metav1.ApplyOptions{FieldManager: manager, Force: true})
}

func (c *Client) onto(ctx context.Context, o *unstructured.Unstructured, uid types.UID, options metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	o.SetUID(uid)
	o.SetResourceVersion("")
	answer, err := c.apply(ctx, o, options)
	return answer, c.checked(ctx, o, uid, "", err)
}

func (c *Client) apply(ctx context.Context, o *unstructured.Unstructured, options metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	if c.dryRun != nil {
		options.DryRun = c.dryRun
	}
	answer, err := r.Apply(ctx, o.GetName(), o, options)
	return answer, attempted("patch", "", err)
}

// Get reads an object from the API server.
func (c *Client) Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, gvk, namespace)
	if err != nil {
		return nil, err
	}
	return r.Get(ctx, name, metav1.GetOptions{})
}

// Delete asks for the deletion of this very incarnation of an object. What is
// gone already, or has been replaced by another of its name, is no error.
func (c *Client) Delete(ctx context.Context, o *unstructured.Unstructured) error {
	return c.DeleteWith(ctx, o, metav1.DeletePropagationBackground)
}

// DeleteWith is Delete by a policy for what depends on the object.
func (c *Client) DeleteWith(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	uid := o.GetUID()
	err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &policy,
	})
	return c.unlessGone(ctx, o, err)
}

// DeleteAsSeen is DeleteWith of an object that still says of itself, by its labels and
// annotations, what it said when it was read: somebody may have come to protect it. If it
// doesn't, the error is ErrChanged, and the change is an event, which brings the next pass.
// What else of it has changed doesn't matter.
func (c *Client) DeleteAsSeen(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	current := o
	for range attempts {
		uid, revision := current.GetUID(), current.GetResourceVersion()
		err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &revision},
			PropagationPolicy: &policy,
		})
		if !conflicts(err) {
			return c.unlessGone(ctx, o, err)
		}
		live, lookErr := r.Get(ctx, o.GetName(), metav1.GetOptions{})
		switch {
		case IsObjectNotFound(lookErr, o.GetName()):
			return nil
		case lookErr != nil:
			return unchanged{error: err}
		case live.GetUID() != uid:
			return nil
		case live.GetResourceVersion() == revision:
			return unchanged{error: err, seen: true}
		case !maps.Equal(live.GetLabels(), o.GetLabels()) || !maps.Equal(live.GetAnnotations(), o.GetAnnotations()):
			return ErrChanged
		}
		current = live
	}
	return ErrChanged
}

// ErrChanged says that an object tells something else of itself than when it was read.
var ErrChanged = errors.New("its labels or annotations have changed")

// DeleteUnchanged asks for the deletion of an object, if nobody has changed it
// since it was read. Otherwise the error is one of IsGone's.
func (c *Client) DeleteUnchanged(ctx context.Context, o *unstructured.Unstructured) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	uid, revision := o.GetUID(), o.GetResourceVersion()
	err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision}})
	return c.unlessUnchanged(ctx, o, err)
}

// WriteStatus replaces an object's whole status, if nobody has changed the object
// since it was read. The rest of the object is left as it is. Otherwise the error
// is one of IsGone's: the change is an event, which brings the next pass.
func (c *Client) WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	next := &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	metadata, _ := o.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields") // caches keep a part of them, and the server would take that for all
	next.Object["metadata"] = metadata
	next.Object["status"] = status
	answer, err := r.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: manager})
	return answer, c.unlessUnchanged(ctx, o, attempted("update", "status", err))
}

// Replace writes a whole object, if nobody has changed it since it was read.
// Otherwise the error is one of IsGone's.
func (c *Client) Replace(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	next := o.DeepCopy()
	next.SetManagedFields(nil) // caches keep a part of them, and the server would take that for all
	answer, err := r.Update(ctx, next, metav1.UpdateOptions{FieldManager: manager})
	return answer, c.unlessUnchanged(ctx, o, attempted("update", "", err))
}

// Patch merges a change into an object (RFC 7386), if nobody has changed it since
// it was read. Otherwise the error is one of IsGone's.
func (c *Client) Patch(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	change = maps.Clone(change)
	metadata, _ := change["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = o.GetUID(), o.GetResourceVersion()
	change["metadata"] = metadata
	body, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode a change of %s: %w", o.GetName(), err)
	}
	answer, err := r.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	return answer, c.unlessUnchanged(ctx, o, attempted("patch", "", err))
}
