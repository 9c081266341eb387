package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// SetFinalizers replaces the finalizers of an object at the revision that was read. If the
// object has changed, the error satisfies IsStale.
func (c *Client) SetFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error) {
	return c.Patch(ctx, o, map[string]any{"metadata": map[string]any{"finalizers": finalizers}}, manager)
}

// RemoveFinalizers removes finalizers from this incarnation of an object, at whatever
// revision: the garbage collector, for example, removes its own at the same time. If the
// incarnation is gone, or one of the finalizers is no longer at its index, the error
// satisfies IsStale: an event brings or has brought the next reconcile.
func (c *Client) RemoveFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	patch := []patchOperation{{"test", "/metadata/uid", o.GetUID()}}
	for i, finalizer := range slices.Backward(o.GetFinalizers()) {
		if slices.Contains(finalizers, finalizer) {
			path := fmt.Sprintf("/metadata/finalizers/%d", i)
			patch = append(patch, patchOperation{"test", path, finalizer}, patchOperation{Op: "remove", Path: path})
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode a patch of %s: %w", o.GetName(), err)
	}
	answer, err := r.Patch(ctx, o.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: manager})
	if !isTestFailure(err) {
		return answer, c.confirmStaleRevision(ctx, o, withAttempt("patch", "", err))
	}
	changed := apierrors.NewConflict(schema.GroupResource{Group: o.GroupVersionKind().Group, Resource: o.GetKind()}, o.GetName(), err)
	if confirmed := c.confirmStaleRevision(ctx, o, changed); IsStale(confirmed) {
		return nil, confirmed
	}
	return nil, err // an admission webhook refused it
}

// patchOperation is an operation of a JSON patch (RFC 6902).
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Such an answer has neither field nor cause.
func isTestFailure(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}
