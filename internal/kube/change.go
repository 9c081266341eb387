package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Change makes a change (a merge patch, RFC 7386) to this very incarnation of an object,
// and leaves the rest of it alone. What is gone already, or has been replaced by another of
// its name, is no error.
func (c *Client) Change(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	metadata := map[string]any{"uid": o.GetUID()}
	if more, ok := change["metadata"].(map[string]any); ok {
		maps.Copy(metadata, more)
	}
	change = maps.Clone(change)
	change["metadata"] = metadata
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode a change of %s: %w", o.GetName(), err)
	}
	_, err = r.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	return c.unlessGone(ctx, o, err)
}
