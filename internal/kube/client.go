// Package kube is the only writer of children and instances. Each write names its precondition:
// the UID that was read, or that the object does not exist. A Conflict costs a read, and a creation
// or deletion is tried at most twice. The package makes no decisions of its own.
// See docs/design/0001-every-write-has-a-precondition.md.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

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
	dynamic     dynamic.Interface
	kinds       Resolver
	permissions permissions
	dryRun      []string // set on all applies
	statuses    storedStatuses
}

// NewClient returns a client over the given connection.
func NewClient(d dynamic.Interface, kinds Resolver) *Client {
	return &Client{dynamic: d, kinds: kinds}
}

// DryRun returns a client for dry runs: the API server validates and admits its applies, and does not store them.
func (c *Client) DryRun() *Client {
	return &Client{dynamic: c.dynamic, kinds: c.kinds, dryRun: []string{metav1.DryRunAll}}
}

func (c *Client) resource(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	r, err := c.kinds.Resolve(ctx, gvk)
	if err != nil {
		return nil, err
	}
	if r.Namespaced {
		return resource{c.dynamic.Resource(r.GVR).Namespace(namespace)}, nil
	}
	return resource{c.dynamic.Resource(r.GVR)}, nil
}

// createOnlyVersion is a resource version that no object ever has. It makes a server-side apply a creation: an object
// that does not exist is created, and one that exists answers Conflict, whatever manager it has. So no object is
// adopted by accident.
const createOnlyVersion = "1"

// Create applies an object that does not exist yet. An existing object of that name is left
// alone: the error then satisfies IsNameTaken, and ExistingObject returns that object.
func (c *Client) Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	o.SetUID("")
	o.SetResourceVersion(createOnlyVersion)
	var err error
	for range attempts {
		var answer *unstructured.Unstructured
		if answer, err = c.apply(ctx, o, metav1.ApplyOptions{FieldManager: manager, Force: true}); !isConflict(err) {
			return answer, err
		}
		live, readErr := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
		switch {
		case readErr == nil:
			return nil, nameTakenError{err, live}
		case !IsObjectNotFound(readErr, o.GetName()):
			return nil, unconfirmedConflict{error: err}
		}
	}
	return nil, unconfirmedConflict{error: err, refuted: true}
}

// CreateByPost creates an object with the permission to create alone: Create applies, and so needs permission to patch
// too. If there is an object of the name, the error is AlreadyExists.
func (c *Client) CreateByPost(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	return r.Create(ctx, o, metav1.CreateOptions{FieldManager: manager, DryRun: c.dryRun})
}

// attempts is how often a creation or a deletion is repeated when the server answers
// Conflict and a read does not confirm it. The object in the way may disappear between the
// two requests, but hardly twice: the second time an admission webhook refuses the write,
// and no event follows.
const attempts = 2

type nameTakenError struct {
	error
	existing *unstructured.Unstructured
}

func (t nameTakenError) Unwrap() error { return t.error }

// IsNameTaken reports whether Create failed because an object of that name exists.
func IsNameTaken(err error) bool { return ExistingObject(err) != nil }

// ExistingObject returns the object that made Create fail with IsNameTaken; nil for other
// errors.
func ExistingObject(err error) *unstructured.Unstructured {
	var t nameTakenError
	if !errors.As(err, &t) {
		return nil
	}
	return t.existing
}

// Update applies an object to the incarnation with the given UID. If that incarnation is
// gone, nothing is written or created, and the error satisfies IsStale.
func (c *Client) Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	return c.applyToUID(ctx, o, uid, metav1.ApplyOptions{FieldManager: manager, Force: true})
}

func (c *Client) applyToUID(ctx context.Context, o *unstructured.Unstructured, uid types.UID, options metav1.ApplyOptions,
	subresources ...string) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	o.SetUID(uid)
	o.SetResourceVersion("")
	answer, err := c.apply(ctx, o, options, subresources...)
	return answer, c.confirmStale(ctx, o, uid, "", err)
}

func (c *Client) apply(ctx context.Context, o *unstructured.Unstructured, options metav1.ApplyOptions,
	subresources ...string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	if c.dryRun != nil {
		options.DryRun = c.dryRun
	}
	answer, err := r.Apply(ctx, o.GetName(), o, options, subresources...)
	return answer, withAttempt("patch", strings.Join(subresources, "/"), err)
}

// Get reads an object from the API server.
func (c *Client) Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, gvk, namespace)
	if err != nil {
		return nil, err
	}
	return r.Get(ctx, name, metav1.GetOptions{})
}

// Delete deletes this incarnation of an object, and its dependents in the background. An
// object that is gone, or was replaced by another of its name, is no error.
func (c *Client) Delete(ctx context.Context, o *unstructured.Unstructured) error {
	return c.DeleteWithPolicy(ctx, o, metav1.DeletePropagationBackground)
}

// DeleteWithPolicy is Delete with a propagation policy for the dependents.
func (c *Client) DeleteWithPolicy(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	uid := o.GetUID()
	err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &policy,
	})
	return c.ignoreGone(ctx, o, err)
}

// DeleteIfMetadataUnchanged is DeleteWithPolicy for an object whose labels and annotations are still those that were
// read: a user may have protected it in the meantime. If they differ, the error is ErrMetadataChanged, and the event of
// the change brings the next reconcile. Other changes of the object do not matter. Gone says that the incarnation is
// known not to exist any more; without it, an event shows that.
func (c *Client) DeleteIfMetadataUnchanged(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) (gone bool, err error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return false, err
	}
	current := o
	for range attempts {
		uid, revision := current.GetUID(), current.GetResourceVersion()
		gone, err = c.confirmedDelete(ctx, o, metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &revision},
			PropagationPolicy: &policy,
		})
		if err == nil {
			return gone, nil
		}
		if !isConflict(err) {
			err = c.ignoreGone(ctx, o, err)
			return err == nil, err
		}
		live, readErr := r.Get(ctx, o.GetName(), metav1.GetOptions{})
		switch {
		case IsObjectNotFound(readErr, o.GetName()):
			return true, nil
		case readErr != nil:
			return false, unconfirmedConflict{error: err}
		case live.GetUID() != uid:
			return true, nil
		case live.GetResourceVersion() == revision:
			return false, unconfirmedConflict{error: err, refuted: true}
		case !maps.Equal(live.GetLabels(), o.GetLabels()) || !maps.Equal(live.GetAnnotations(), o.GetAnnotations()):
			return false, ErrMetadataChanged
		}
		current = live
	}
	return false, ErrMetadataChanged
}

// ConfirmingDeleter deletes as a dynamic client does, and reports whether the answer says that the object is gone.
// A *wire.Client is one.
type ConfirmingDeleter interface {
	ConfirmedDelete(ctx context.Context, of schema.GroupVersionResource, namespace, name string, options metav1.DeleteOptions) (gone bool, err error)
}

// A connection that is no ConfirmingDeleter confirms none.
func (c *Client) confirmedDelete(ctx context.Context, o *unstructured.Unstructured, options metav1.DeleteOptions) (gone bool, err error) {
	resource, err := c.kinds.Resolve(ctx, o.GroupVersionKind())
	if err != nil {
		return false, err
	}
	namespace := ""
	if resource.Namespaced {
		namespace = o.GetNamespace()
	}
	if d, confirms := c.dynamic.(ConfirmingDeleter); confirms {
		gone, err = d.ConfirmedDelete(ctx, resource.GVR, namespace, o.GetName(), options)
	} else {
		err = c.dynamic.Resource(resource.GVR).Namespace(namespace).Delete(ctx, o.GetName(), options)
	}
	return gone, Concise(err)
}

// ErrMetadataChanged reports that the labels or annotations of an object differ from those that were read.
var ErrMetadataChanged = errors.New("its labels or annotations have changed")

// DeleteIfUnchanged deletes an object at the revision that was read. If it has changed, the
// error satisfies IsStale.
func (c *Client) DeleteIfUnchanged(ctx context.Context, o *unstructured.Unstructured) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	uid, revision := o.GetUID(), o.GetResourceVersion()
	err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision}})
	return c.confirmStaleRevision(ctx, o, err)
}

// WriteStatus replaces the status of an object at the revision that was read, and leaves the rest as it is. If the
// object has changed, the error satisfies IsStale, and the event of the change brings the next reconcile. A status
// equal to the object's, but for fields that the API server did not store lately, is not sent: the answer is the
// object.
func (c *Client) WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	if c.statuses.isStored(o.GroupVersionKind(), o.Object["status"], status, time.Now()) {
		return o, nil
	}
	next := &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	metadata, _ := o.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields") // caches keep a part of them, which the server would take for all
	next.Object["metadata"] = metadata
	next.Object["status"] = status
	answer, err := r.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: manager})
	if err == nil {
		c.statuses.observe(o.GroupVersionKind(), status, answer.Object["status"], time.Now())
	}
	return answer, c.confirmStaleRevision(ctx, o, withAttempt("update", "status", err))
}

// StatusRecheck returns when a status of the kind should be written again: the API server has not stored all of the last
// one, perhaps because it does not use a new schema yet. It is 0 if all is stored, or the schema is known to lack fields.
func (c *Client) StatusRecheck(kind schema.GroupVersionKind) time.Duration {
	return c.statuses.recheck(kind, time.Now())
}

// Replace writes a whole object over the revision that was read. If the object has changed,
// the error satisfies IsStale.
func (c *Client) Replace(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	next := o.DeepCopy()
	next.SetManagedFields(nil) // caches keep a part of them, which the server would take for all
	answer, err := r.Update(ctx, next, metav1.UpdateOptions{FieldManager: manager})
	return answer, c.confirmStaleRevision(ctx, o, withAttempt("update", "", err))
}

// Patch merges a change (RFC 7386) into the revision of an object that was read. If the
// object has changed, the error satisfies IsStale.
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
		return nil, fmt.Errorf("encode a patch of %s: %w", o.GetName(), err)
	}
	answer, err := r.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	return answer, c.confirmStaleRevision(ctx, o, withAttempt("patch", "", err))
}

// List reads the objects of a kind from the API server: those that match a label selector,
// or all if it is empty.
func (c *Client) List(ctx context.Context, gvk schema.GroupVersionKind, selector string) ([]unstructured.Unstructured, error) {
	return c.ListIn(ctx, gvk, "", selector)
}

// ListIn is List in one namespace, or in all if it is empty.
func (c *Client) ListIn(ctx context.Context, gvk schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error) {
	r, err := c.resource(ctx, gvk, namespace)
	if err != nil {
		return nil, err
	}
	list, err := r.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return list.Items, nil
}
