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

// SetFinalizers replaces an object's finalizers, if nobody has changed the object
// since it was read. Otherwise the error is one of IsGone's.
func (c *Client) SetFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error) {
	return c.Patch(ctx, o, map[string]any{"metadata": map[string]any{"finalizers": finalizers}}, manager)
}

// RemoveFinalizers takes finalizers off this very incarnation of an object, whatever
// others write meanwhile, such as the garbage collector, which takes off its own. If
// the incarnation is gone, or one of the finalizers isn't where it was, the error is
// one of IsGone's: an event brings or has brought the next pass.
func (c *Client) RemoveFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	patch := []operation{{"test", "/metadata/uid", o.GetUID()}}
	for i, finalizer := range slices.Backward(o.GetFinalizers()) {
		if slices.Contains(finalizers, finalizer) {
			path := fmt.Sprintf("/metadata/finalizers/%d", i)
			patch = append(patch, operation{"test", path, finalizer}, operation{Op: "remove", Path: path})
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode a change of %s: %w", o.GetName(), err)
	}
	answer, err := r.Patch(ctx, o.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: manager})
	if !isUntrue(err) {
		return answer, c.unlessUnchanged(ctx, o, attempted("patch", "", err))
	}
	changed := apierrors.NewConflict(schema.GroupResource{Group: o.GroupVersionKind().Group, Resource: o.GetKind()}, o.GetName(), err)
	if told := c.unlessUnchanged(ctx, o, changed); IsGone(told) {
		return nil, told
	}
	return nil, err // a webhook's
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// isUntrue says that the server refuses a patch since one of its tests fails. It
// says so in general terms: no field, no cause.
func isUntrue(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}
