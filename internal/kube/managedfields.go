package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// ReplaceManagedFields gives fields of this very incarnation of an object to other managers, as compute
// says from the live object; compute is false where nothing is to be changed. It takes a read, since caches
// keep a part of the managed fields only, and a write. If the object is gone or has changed in between, the
// error is one of IsGone's.
//
// The digest of what was last applied goes with the same write. So whatever happens after
// it, the object counts as one that is to be applied, and what nobody wants any more goes.
func (c *Client) ReplaceManagedFields(ctx context.Context, o *unstructured.Unstructured, manager string, compute func(live *unstructured.Unstructured) ([]metav1.ManagedFieldsEntry, bool)) (*unstructured.Unstructured, error) {
	live, err := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	if err != nil {
		return nil, err
	}
	if live.GetUID() != o.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: o.GroupVersionKind().Group, Resource: o.GetKind()}, o.GetName(), fmt.Errorf("another object has its name"))
	}
	entries, due := compute(live)
	if !due {
		return live, nil // another process has replaced them
	}
	body, err := json.Marshal(replacement(live, entries))
	if err != nil {
		return nil, fmt.Errorf("encode the managed fields of %s: %w", o.GetName(), err)
	}
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	answer, err := r.Patch(ctx, o.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: manager})
	return answer, c.unlessUnchanged(ctx, live, err)
}

// replacement is the JSON patch (RFC 6902) that replaces an object's managed fields. The server
// answers Conflict to a resource version that isn't the object's any more.
func replacement(live *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry) []operation {
	patch := []operation{
		{"replace", "/metadata/resourceVersion", live.GetResourceVersion()},
		{"replace", "/metadata/managedFields", entries},
	}
	if _, applied := live.GetAnnotations()[v1alpha1.AppliedAnnotation]; applied {
		patch = append(patch, operation{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AppliedAnnotation, "/", "~1")})
	}
	return patch
}
