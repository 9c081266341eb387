package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Release takes labels and annotations off this very incarnation of an object, sets its
// owner references unless they are nil, and leaves the rest of it alone. What is gone
// already, or has been replaced by another of its name, is no error.
func (c *Client) Release(ctx context.Context, o *unstructured.Unstructured, labels, annotations []string, owners []metav1.OwnerReference, manager string) error {
	none := func(keys []string) map[string]any {
		out := make(map[string]any, len(keys))
		for _, key := range keys {
			out[key] = nil
		}
		return out
	}
	change := map[string]any{"labels": none(labels), "annotations": none(annotations)}
	if owners != nil {
		change["ownerReferences"] = owners
	}
	return c.patchMetadata(ctx, o, change, manager)
}

// Annotate puts annotations onto this very incarnation of an object, and sets its owner
// references unless they are nil. What is gone already, or has been replaced by another of
// its name, is no error.
func (c *Client) Annotate(ctx context.Context, o *unstructured.Unstructured, annotations map[string]string, owners []metav1.OwnerReference, manager string) error {
	change := map[string]any{"annotations": annotations}
	if owners != nil {
		change["ownerReferences"] = owners
	}
	return c.patchMetadata(ctx, o, change, manager)
}

func (c *Client) patchMetadata(ctx context.Context, o *unstructured.Unstructured, metadata map[string]any, manager string) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	metadata["uid"] = o.GetUID()
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode metadata of %s: %w", o.GetName(), err)
	}
	_, err = r.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	return c.unlessGone(ctx, o, err)
}
