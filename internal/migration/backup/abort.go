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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// ErrNothingHeld is returned by Abort if the import has no Hold, so that it is not in progress.
var ErrNothingHeld = errors.New("this import is not in progress: it has no Hold, and the controllers reconcile what it created. Delete objects that you do not want as usual")

// Abort deletes what an unfinished import has created, in reverse order, and then its Hold.
// External resources are not touched: the controllers are held, and finalizers are removed
// before each deletion. Namespaces stay.
func (i *Import) Abort(ctx context.Context) error {
	hold, err := i.takeHold(ctx)
	if err != nil {
		return err
	}
	if hold == nil {
		return ErrNothingHeld
	}
	i.Progress("aborting the import that began at %s", hold.GetCreationTimestamp().UTC().Format(time.RFC3339))
	// Until its next check of the Hold, a process that was importing still creates objects.
	if err := wait(ctx, 2*checkEvery); err != nil {
		return err
	}
	created, err := i.findCreated(ctx)
	if err != nil {
		return err
	}
	for _, c := range created {
		if err := i.undo(ctx, c); err != nil {
			return fmt.Errorf("delete %s: %w", c.key, err)
		}
	}
	i.Progress("deleted %s", diag.Counted(len(created), "object", "objects"))
	return i.release(ctx)
}

// creation is an object that this import has created.
type creation struct {
	key     object.Key
	kind    schema.GroupVersionKind
	uid     types.UID
	section archive.Section
}

// findCreated returns what this import has created, except namespaces, in the order of deletion. All is read before
// anything is deleted, since the controllers of definitions delete their revisions themselves.
func (i *Import) findCreated(ctx context.Context) ([]creation, error) {
	var out []creation
	for _, section := range slices.Backward(archive.AllSections) {
		if section == archive.Namespaces {
			continue
		}
		for _, o := range slices.Backward(i.File.Sections[section]) {
			if err := i.checkHold(ctx); err != nil {
				return nil, err
			}
			live, err := i.getCreated(ctx, section, o)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", object.KeyOf(o), err)
			}
			if live != nil {
				out = append(out, creation{key: object.KeyOf(live), kind: o.GroupVersionKind(), uid: live.GetUID(), section: section})
			}
		}
	}
	return out, nil
}

// getCreated returns what this import has created of an object of the archive; nil if there is nothing.
func (i *Import) getCreated(ctx context.Context, section archive.Section, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name := o.GetName()
	if section == archive.Bindings {
		// The managed resource still exists: it is deleted after its Bindings.
		if owner, _ := archive.Owner(o); i.inFile(owner) {
			managed, err := i.get(ctx, archive.OwnerKind(o), owner.Namespace, owner.Name)
			if err != nil && !isUnserved(err) {
				return nil, err
			}
			if managed != nil {
				name = archive.ForOwner(o, managed.GetUID()).GetName()
			}
		}
	}
	live, err := i.get(ctx, o.GroupVersionKind(), o.GetNamespace(), name)
	switch {
	case isUnserved(err), err == nil && (live == nil || !archive.CreatedBy(live, i.hold)):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return live, nil
}

// undo deletes an object that this import has created, unless it is gone.
func (i *Import) undo(ctx context.Context, c creation) error {
	if err := i.checkHold(ctx); err != nil {
		return err
	}
	r, err := i.objects(c.kind, c.key.Namespace)
	if isUnserved(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// The controllers of definitions and functions are not held: they remove their own finalizers.
	if c.section != archive.Definitions && c.section != archive.Functions {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": c.uid, "finalizers": nil}})
		if err != nil {
			return err
		}
		if _, err := r.Patch(ctx, c.key.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: Manager}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	err = r.Delete(ctx, c.key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
