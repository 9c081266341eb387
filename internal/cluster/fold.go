package cluster

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
	"github.com/espalier-dev/espalier/internal/fieldmanager"
)

// FoldManagers has this program's managers own what those of former engines own on this
// very incarnation of an object. It takes a read, since caches keep a part of the managed
// fields only, and a write. If the object is gone or has changed in between, the error is
// one of IsGone's.
//
// The digest of what was last applied goes with the same write. So whatever happens after
// it, the object counts as one that is to be applied, and what nobody wants any more goes.
func (c *Client) FoldManagers(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	live, err := c.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	if err != nil {
		return nil, err
	}
	if live.GetUID() != o.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: o.GroupVersionKind().Group, Resource: o.GetKind()}, o.GetName(), fmt.Errorf("another object has its name"))
	}
	entries, due := fieldmanager.Fold(live)
	if !due {
		return live, nil // somebody else has folded them
	}
	body, err := json.Marshal(folding(live, entries))
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

// folding is the JSON patch (RFC 6902) that folds an object's managed fields. The server
// answers Conflict to a resource version that isn't the object's any more.
func folding(live *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry) []operation {
	patch := []operation{
		{"replace", "/metadata/resourceVersion", live.GetResourceVersion()},
		{"replace", "/metadata/managedFields", entries},
	}
	if _, applied := live.GetAnnotations()[v1alpha1.AppliedAnnotation]; applied {
		patch = append(patch, operation{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AppliedAnnotation, "/", "~1")})
	}
	return patch
}
