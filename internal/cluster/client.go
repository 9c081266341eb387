// Package cluster is the only writer of children and instances. Each write is
// one request that carries what it was decided on: the UID that was read, or the
// condition that nothing is there yet. It makes no decisions of its own.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/plan"
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
}

// NewClient returns a client over the given connection.
func NewClient(d dynamic.Interface, kinds Resolver) *Client {
	return &Client{dynamic: d, kinds: kinds}
}

func (c *Client) resource(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	r, err := c.kinds.Resolve(ctx, gvk)
	if err != nil {
		return nil, err
	}
	if r.Namespaced {
		return c.dynamic.Resource(r.GVR).Namespace(namespace), nil
	}
	return c.dynamic.Resource(r.GVR), nil
}

// neverStored is a resource version that no object ever has. In a server-side
// apply it makes the write conditional: what doesn't exist is created, and what
// exists answers Conflict, whoever it belongs to. Nothing is taken over unseen.
const neverStored = "1"

// Create applies an object that isn't there yet. An object of that name that
// does exist is left alone; the error is then a Conflict, see IsTaken.
func (c *Client) Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	o.SetUID("")
	o.SetResourceVersion(neverStored)
	return c.apply(ctx, o, metav1.ApplyOptions{FieldManager: manager, Force: true})
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
	return c.apply(ctx, o, options)
}

func (c *Client) apply(ctx context.Context, o *unstructured.Unstructured, options metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	return r.Apply(ctx, o.GetName(), o, options)
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

// DeleteUnchanged asks for the deletion of an object, if nobody has changed it
// since it was read. Otherwise the error is one of IsGone's.
func (c *Client) DeleteUnchanged(ctx context.Context, o *unstructured.Unstructured) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	uid, revision := o.GetUID(), o.GetResourceVersion()
	return r.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision}})
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
	return r.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: manager})
}

// IsTaken says that Create found an object of that name.
func IsTaken(err error) bool { return conflicts(err) }

// Explain turns the error of a request into the problem that a node shows.
func Explain(err error) plan.Problem {
	message := err.Error()
	switch {
	case IsUnavailable(err):
		return plan.Problem{Reason: plan.WaitingForKind, Message: message}
	case apierrors.IsForbidden(err):
		return plan.Problem{Reason: plan.Forbidden, Message: message}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return plan.Problem{Reason: plan.Rejected, Message: message}
	}
	return plan.Problem{Reason: plan.Unavailable, Message: message}
}

// Discreet tells of an error of a request what can't quote the object that was
// sent: the server's reason, and which fields it is about.
func Discreet(err error) string {
	text := "the API server answers " + string(apierrors.ReasonForError(err))
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return text
	}
	for _, cause := range status.Status().Details.Causes {
		text += fmt.Sprintf("; %s: %s", cause.Field, cause.Type)
	}
	return text
}

// Quiet wraps an error of a request so that its text can't quote the object that
// was sent, while what kind of error it is can still be told.
func Quiet(err error) error { return quiet{err} }

type quiet struct{ error }

func (q quiet) Error() string { return Discreet(q.error) }
func (q quiet) Unwrap() error { return q.error }

// Passes says whether a request that failed may work when it is repeated as it
// is, so that a retry with growing delay makes sense.
func Passes(err error) bool { return Explain(err).Reason == plan.Unavailable }

// Replace writes a whole object, if nobody has changed it since it was read.
// Otherwise the error is one of IsGone's.
func (c *Client) Replace(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	next := o.DeepCopy()
	next.SetManagedFields(nil) // caches keep a part of them, and the server would take that for all
	return r.Update(ctx, next, metav1.UpdateOptions{FieldManager: manager})
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
	return answer, c.unlessUnchanged(ctx, o, err)
}
