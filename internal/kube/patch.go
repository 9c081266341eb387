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

// PatchIfExists merges a change (RFC 7386) into this incarnation of an object, at whatever
// revision. An object that is gone, or was replaced by another of its name, is no error.
func (c *Client) PatchIfExists(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) error {
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
		return fmt.Errorf("encode a patch of %s: %w", o.GetName(), err)
	}
	_, err = r.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	return c.ignoreGone(ctx, o, err)
}

// PatchMetadata merges a change of metadata (RFC 7386) into this incarnation of an object,
// at whatever revision. If the incarnation is gone, the error satisfies IsStale.
func (c *Client) PatchMetadata(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return nil, err
	}
	metadata, _ := change["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["uid"] = o.GetUID()
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("encode metadata of %s: %w", o.GetName(), err)
	}
	answer, err := r.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	return answer, c.confirmStale(ctx, o, o.GetUID(), "", withAttempt("patch", "", err))
}
