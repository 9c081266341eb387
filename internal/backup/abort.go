package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// ErrNothingHeld is returned by Abort if the import has no Hold, so that it is not in progress.
var ErrNothingHeld = errors.New("this import is not in progress, since it has no Hold: the controllers reconcile what it created. Delete objects that you do not want as usual")

// Abort deletes what an unfinished import has created, in reverse order, and then its Hold.
// External resources are not touched: the controllers are held, and finalizers are removed
// before each deletion. Namespaces stay.
func (i *Import) Abort(ctx context.Context) error {
	i.uids = map[object.Key]types.UID{}
	live, err := i.get(ctx, holdKind, "", archive.HoldName(i.File.Header.ID))
	if isUnserved(err) || err == nil && live == nil {
		return ErrNothingHeld
	}
	if err != nil {
		return err
	}
	begun, err := i.acquireHold(ctx)
	if err != nil {
		return err
	}
	if !begun.IsZero() {
		i.Progress("aborting the import that began at %s", begun.Format(time.RFC3339))
	}
	removed := 0
	for _, section := range slices.Backward(archive.AllSections) {
		if section == archive.Namespaces {
			continue
		}
		for _, o := range slices.Backward(i.File.Sections[section]) {
			deleted, err := i.undo(ctx, section, o)
			if err != nil {
				return fmt.Errorf("delete %s: %w", object.KeyOf(o), err)
			}
			if deleted {
				removed++
			}
		}
	}
	i.Progress("deleted %d objects", removed)
	return i.release(ctx)
}

// undo deletes an object if this import has created it.
func (i *Import) undo(ctx context.Context, section archive.Section, o *unstructured.Unstructured) (deleted bool, err error) {
	if err := i.checkHold(ctx); err != nil {
		return false, err
	}
	name := o.GetName()
	if section == archive.Bindings {
		// The managed resource still exists: it is deleted after its Bindings.
		if owner, _ := archive.Owner(o); i.inFile(owner) {
			managed, err := i.get(ctx, archive.OwnerKind(o), owner.Namespace, owner.Name)
			if err != nil && !isUnserved(err) {
				return false, err
			}
			if managed != nil {
				name = archive.ForOwner(o, managed.GetUID()).GetName()
			}
		}
	}
	live, err := i.get(ctx, o.GroupVersionKind(), o.GetNamespace(), name)
	switch {
	case isUnserved(err), err == nil && live == nil:
		return false, nil
	case err != nil:
		return false, err
	case !archive.CreatedBy(live, i.hold):
		return false, nil
	}
	r, err := i.objects(o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return false, err
	}
	uid := live.GetUID()
	// The controllers of definitions and functions are not held: they remove their own finalizers.
	if section != archive.Definitions && section != archive.Functions {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "finalizers": nil}})
		if err != nil {
			return false, err
		}
		if _, err := r.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: Manager}); err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
	}
	err = r.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return true, err
}
