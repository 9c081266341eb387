package backup

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
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
