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

// WasOrphaned says whether the deletion of an object asked for its dependents to
// be left in place. While the garbage collector hasn't seen to that, the object
// carries a finalizer for it; later nothing about the object tells. So the
// revision in which the deletion was asked for is looked for among those before,
// which the API server keeps for some minutes. Where they are no longer there, the
// answer is no.
//
// A read at a revision, by resourceVersionMatch=Exact, takes revisions for numbers
// that count writes, as they are in every storage that an API server has had.
func (c *Client) WasOrphaned(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	revision := parseRevision(o.GetResourceVersion())
	if o.GetDeletionTimestamp() == nil || revision == 0 {
		return false, nil // without numbers there is nothing to look for
	}
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return false, err
	}
	h := history{r, o}
	deletion, orphaned, err := h.deletion(ctx, revision)
	if err != nil {
		return false, fmt.Errorf("read how the deletion of %s was asked for, at revision %d: %w", o.GetName(), deletion, err)
	}
	return orphaned, nil
}

// history is what an object was like at earlier revisions.
type history struct {
	of dynamic.ResourceInterface
	o  *unstructured.Unstructured
}

// deletion finds the first revision in which the object was being deleted, and says
// whether it carried the finalizer then, or at any of those it sees on the way. From
// the present one it goes back by growing steps until it wasn't, and halves what is
// between. Most deletions are seen at once, or right after the garbage collector
// has been there, and the first step or the second says so.
func (h history) deletion(ctx context.Context, now uint64) (revision uint64, orphaned bool, err error) {
	before, after := now, now // it was being deleted at after; not at before, once that is known
	orphaned = carriesOrphan(h.o)
	for i := 0; ; i++ {
		step := uint64(1) << max(0, i-1)
		if orphaned || after <= step {
			return after, orphaned, nil
		}
		before = after - step
		was, known, err := h.at(ctx, before)
		if err != nil {
			return before, false, err
		}
		if !known || was == nil {
			break
		}
		after, orphaned = before, carriesOrphan(was)
		if written := parseRevision(was.GetResourceVersion()); written > 0 {
			after = min(after, written) // nobody changed it in between
		}
	}
	for before+1 < after {
		middle := before + (after-before)/2
		was, known, err := h.at(ctx, middle)
		switch {
		case err != nil:
			return middle, false, err
		case !known || was == nil:
			before = middle
		default:
			after, orphaned = middle, carriesOrphan(was)
		}
	}
	return after, orphaned, nil
}

func carriesOrphan(o *unstructured.Unstructured) bool {
	return slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// at is the object as it was at a revision, if it was being deleted then; nil if it
// wasn't. Known is false for a revision that the API server no longer keeps.
func (h history) at(ctx context.Context, revision uint64) (was *unstructured.Unstructured, known bool, err error) {
	list, err := h.of.List(ctx, metav1.ListOptions{
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
