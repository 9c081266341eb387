package backup

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// restoreStatus restores the exported status of an object that this import has created, unless
// it has a status already: functions compute resources from it.
func (i *Import) restoreStatus(ctx context.Context, exported, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r, err := i.objects(live.GroupVersionKind(), live.GetNamespace())
	if err != nil {
		return nil, err
	}
	for !archive.HasStatus(live) && archive.CreatedBy(live, i.hold) {
		next := live.DeepCopy()
		next.Object["status"] = archive.Status(exported)
		restored, err := r.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: Manager})
		if !apierrors.IsConflict(err) {
			return restored, err
		}
		if live, err = r.Get(ctx, live.GetName(), metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	return live, nil
}

// renumber raises the number of an existing CompositionRevision to the exported one: otherwise
// older revisions that are imported would have higher numbers.
func (i *Import) renumber(ctx context.Context, exported *unstructured.Unstructured) error {
	r, err := i.objects(exported.GroupVersionKind(), exported.GetNamespace())
	if err != nil {
		return err
	}
	for {
		live, err := r.Get(ctx, exported.GetName(), metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case live.GetUID() != i.uids[object.KeyOf(exported)]:
			return ErrChanged
		case archive.Number(live) >= archive.Number(exported):
			return nil
		}
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()},
			"spec":     map[string]any{"revision": archive.Number(exported)},
		})
		if err != nil {
			return err
		}
		_, err = r.Patch(ctx, live.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: Manager})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}
