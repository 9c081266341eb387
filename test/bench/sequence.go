package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plainLeaves are copies of leaves that no controller serves, for the writes of a plain client one after the other.
var plainLeaves = ours("plainleaves")

// measureSequence measures repeatedly how long a plain client takes for the writes of some leaves. They are new each time,
// and have a finalizer.
func (n nest) measureSequence(ctx context.Context, times, leaves int, write func(leaf string) error) (took []time.Duration, err error) {
	for i := range times {
		names := make([]string, leaves)
		for j := range names {
			names[j] = numberedName(numberedName("plain", i), j)
			leaf := instance("PlainLeaf", names[j])
			leaf.SetFinalizers([]string{finalizer})
			if _, err := n.resource(plainLeaves).Create(ctx, leaf, metav1.CreateOptions{FieldManager: manager}); err != nil {
				return nil, err
			}
		}
		began := time.Now()
		for _, name := range names {
			if err := write(name); err != nil {
				return nil, err
			}
		}
		took = append(took, time.Since(began))
		for _, name := range names {
			if err := n.deleteLeaf(ctx, name); err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
		}
	}
	return took, nil
}

// patchStatus writes the status of a plain leaf a number of times.
func (n nest) patchStatus(ctx context.Context, leaf string, writes int) error {
	for i := range writes {
		patch := fmt.Appendf(nil, `{"status":{"value":"value %d"}}`, i)
		if _, err := n.resource(plainLeaves).Patch(ctx, leaf, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status"); err != nil {
			return err
		}
	}
	return nil
}

// deleteLeaf deletes a plain leaf, and removes its finalizer: two writes.
func (n nest) deleteLeaf(ctx context.Context, name string) error {
	if err := n.resource(plainLeaves).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := n.resource(plainLeaves).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: manager})
	return err
}

// multiple is the median of some times, as a multiple of that of the plain client.
func multiple(took, plain []time.Duration) float64 {
	return float64(median(took)) / float64(median(plain))
}
