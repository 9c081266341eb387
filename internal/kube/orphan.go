package kube

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// WasOrphaned reports whether the deletion of an object requested to orphan its dependents. Until the garbage collector
// has orphaned them, the object carries a finalizer for it; later nothing on the object shows it. So WasOrphaned looks
// for the revision in which the deletion was requested among the earlier ones, which the API server keeps for some
// minutes. If they are no longer there, the answer is false.
//
// A read at a revision, by resourceVersionMatch=Exact, takes resource versions for numbers that count writes, which
// holds for every storage that an API server has had.
func (c *Client) WasOrphaned(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	revision := parseRevision(o.GetResourceVersion())
	if o.GetDeletionTimestamp() == nil || revision == 0 {
		return false, nil // without a numeric revision there is nothing to search
	}
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return false, err
	}
	h := history{r, o}
	deletion, orphaned, err := h.deletion(ctx, revision)
	if err != nil {
		return false, fmt.Errorf("read %s at revision %d to find out whether its deletion orphans dependents: %w", o.GetName(), deletion, err)
	}
	return orphaned, nil
}

type history struct {
	resource dynamic.ResourceInterface
	o        *unstructured.Unstructured
}

// deletion finds the first revision in which the object was being deleted, and reports whether the object carried the
// orphan finalizer then, or at a later revision that the search read. The search goes back from the present in growing
// steps until the object was not being deleted, and then bisects. Most deletions are seen at once, or right after the
// garbage collector has run, so the first or the second step finds the answer.
func (h history) deletion(ctx context.Context, now uint64) (revision uint64, orphaned bool, err error) {
	before, after := now, now // deleting at after; not deleting at before, once the loop ends
	orphaned = hasOrphanFinalizer(h.o)
	for i := 0; ; i++ {
		step := uint64(1) << max(0, i-1)
		if orphaned || after <= step {
			return after, orphaned, nil
		}
		before = after - step
		o, known, err := h.stateAt(ctx, before)
		if err != nil {
			return before, false, err
		}
		if !known || o == nil {
			break
		}
		after, orphaned = before, hasOrphanFinalizer(o)
		if written := parseRevision(o.GetResourceVersion()); written > 0 {
			after = min(after, written) // it was not changed in between
		}
	}
	for before+1 < after {
		middle := before + (after-before)/2
		o, known, err := h.stateAt(ctx, middle)
		switch {
		case err != nil:
			return middle, false, err
		case !known || o == nil:
			before = middle
		default:
			after, orphaned = middle, hasOrphanFinalizer(o)
		}
	}
	return after, orphaned, nil
}

func hasOrphanFinalizer(o *unstructured.Unstructured) bool {
	return slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// stateAt returns the object as it was at a revision, if it was being deleted then; nil if
// it was not. Known is false for a revision that the API server no longer keeps.
func (h history) stateAt(ctx context.Context, revision uint64) (was *unstructured.Unstructured, known bool, err error) {
	list, err := h.resource.List(ctx, metav1.ListOptions{
		FieldSelector:   "metadata.name=" + h.o.GetName(),
		ResourceVersion: strconv.FormatUint(revision, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case len(list.Items) == 0 || list.Items[0].GetUID() != h.o.GetUID() || list.Items[0].GetDeletionTimestamp() == nil:
		return nil, true, nil
	}
	return &list.Items[0], true, nil
}
