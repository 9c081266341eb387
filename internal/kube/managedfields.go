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
	"k8s.io/client-go/util/retry"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// ReplaceManagedFields replaces the managed fields of this incarnation of an object by what compute returns for the
// live object; compute returns false if nothing needs to change. It reads the object, because caches keep only a part
// of the managed fields, and then patches it. If the object changes in between, that is repeated a few times. If it is
// gone or still changes, the error satisfies IsStale.
//
// The same patch removes the digest of the last applied configuration. So whatever happens next, the object is applied
// again, and fields that are no longer desired are removed.
func (c *Client) ReplaceManagedFields(ctx context.Context, o *unstructured.Unstructured, manager string,
	compute func(live *unstructured.Unstructured) ([]metav1.ManagedFieldsEntry, bool)) (answer *unstructured.Unstructured, err error) {
	err = retry.OnError(retry.DefaultRetry, func(err error) bool { return apierrors.IsConflict(err) && IsStale(err) }, func() error {
		answer, err = c.replaceManagedFields(ctx, o, manager, compute)
		return err
	})
	return answer, err
}

func (c *Client) replaceManagedFields(ctx context.Context, o *unstructured.Unstructured, manager string,
	compute func(live *unstructured.Unstructured) ([]metav1.ManagedFieldsEntry, bool)) (*unstructured.Unstructured, error) {
	live, err := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	if err != nil {
		return nil, err
	}
	if live.GetUID() != o.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: o.GroupVersionKind().Group, Resource: o.GetKind()}, o.GetName(),
			fmt.Errorf("another object has its name"))
	}
	entries, due := compute(live)
	if !due {
		return live, nil // another process has already replaced them
	}
	body, err := json.Marshal(managedFieldsPatch(live, entries))
	if err != nil {
		return nil, fmt.Errorf("encode the managed fields of %s: %w", o.GetName(), err)
	}
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	answer, err := r.Patch(ctx, o.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: manager, DryRun: c.dryRun})
	return answer, c.confirmStaleRevision(ctx, live, err)
}

// The server answers Conflict if the resource version is no longer the object's.
func managedFieldsPatch(live *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry) []patchOperation {
	patch := []patchOperation{
		{"replace", "/metadata/resourceVersion", live.GetResourceVersion()},
		{"replace", "/metadata/managedFields", entries},
	}
	if _, applied := live.GetAnnotations()[v1alpha1.AppliedAnnotation]; applied {
		patch = append(patch, patchOperation{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AppliedAnnotation, "/", "~1")})
	}
	return patch
}
