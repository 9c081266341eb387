package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// restore creates an object, and restores its status and field owners. It keeps a namespace that
// another client has created since the plan was made.
func (i *Import) restore(ctx context.Context, section archive.Section, o *unstructured.Unstructured) (kept bool, err error) {
	wanted := i.rewrite(section, o)
	i.sign(wanted)
	live, err := i.create(ctx, wanted)
	if err != nil {
		return false, err
	}
	if !archive.CreatedBy(live, i.hold) {
		if section != archive.Namespaces {
			return false, ErrChanged
		}
		return true, nil
	}
	i.uids[object.KeyOf(o)] = live.GetUID()
	if archive.HasStatus(o) {
		if live, err = i.restoreStatus(ctx, o, live); err != nil {
			return false, err
		}
	}
	return false, i.restoreOwners(ctx, o, live)
}

// rewrite returns an object as it is created in this cluster. All that names objects by UID is
// rewritten here.
func (i *Import) rewrite(section archive.Section, o *unstructured.Unstructured) *unstructured.Unstructured {
	wanted := archive.Imported(o, archive.ImportedBy(i.hold))
	if section == archive.Bindings {
		owner, _ := archive.Owner(o)
		if uid, ok := i.uids[owner]; ok && i.inFile(owner) {
			wanted = archive.ForOwner(wanted, uid)
		}
	}
	return wanted
}

// create creates an object, and returns it, or the one that exists: a request whose answer was lost may have created it.
func (i *Import) create(ctx context.Context, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r, err := i.objects(wanted.GroupVersionKind(), wanted.GetNamespace())
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(servingTimeout); ; {
		live, err := r.Create(ctx, wanted, metav1.CreateOptions{FieldManager: Manager})
		switch {
		case apierrors.IsAlreadyExists(err):
			return r.Get(ctx, wanted.GetName(), metav1.GetOptions{})
		case err != nil && isNotServingYet(err) && time.Now().Before(deadline):
			if err := wait(ctx, 100*time.Millisecond); err != nil {
				return nil, err
			}
			continue
		}
		return live, err
	}
}

// servingTimeout is how long the API server may take to accept objects of a kind that it has
// just begun to serve.
const servingTimeout = 10 * time.Second

// isNotServingYet reports whether the error may be one of a kind that is served only in a moment.
func isNotServingYet(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsNotFound(err) || isTerminating(err)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// restoreOwners restores the managed fields of an object. A field that the import owned as well
// would stay when its other owner stops applying it.
func (i *Import) restoreOwners(ctx context.Context, exported, live *unstructured.Unstructured) error {
	r, err := i.objects(live.GroupVersionKind(), live.GetNamespace())
	if err != nil {
		return err
	}
	for len(exported.GetManagedFields()) > 0 && slices.ContainsFunc(live.GetManagedFields(),
		func(e metav1.ManagedFieldsEntry) bool { return e.Manager == Manager }) {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "managedFields": exported.GetManagedFields(),
		}})
		if err != nil {
			return err
		}
		_, err = r.Patch(ctx, live.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: Manager})
		if !apierrors.IsConflict(err) {
			return err
		}
		if live, err = r.Get(ctx, live.GetName(), metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// deleteAgain deletes an object that this import has created, and that was being deleted when it
// was exported. Its finalizers keep it until the controllers continue.
func (i *Import) deleteAgain(ctx context.Context, o *unstructured.Unstructured) error {
	policy, _ := archive.Deleting(o)
	uid, created := i.uids[object.KeyOf(o)]
	if !created {
		return nil
	}
	r, err := i.objects(o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete it again: %w", err)
	}
	return nil
}

// KindsError lists the kinds that are not served after the wait. The Hold stays.
type KindsError struct{ Waits []string }

func (k *KindsError) Error() string {
	text := "these kinds are not served in time:"
	for _, w := range k.Waits {
		text += "\n  " + w
	}
	return text + "\n" + heldAdvice
}

// awaitKinds waits until the kinds of objects are served. Their definitions are imported, but
// the controllers that serve the kinds may not be running.
func (i *Import) awaitKinds(ctx context.Context, objects []*unstructured.Unstructured) error {
	waiting := map[schema.GroupVersionKind]bool{}
	for _, o := range objects {
		waiting[o.GroupVersionKind()] = true
	}
	reported := false
	for deadline := time.Now().Add(i.Patience); ; {
		for gvk := range waiting {
			served, err := i.serves(ctx, gvk)
			if err != nil {
				return err
			}
			if served {
				delete(waiting, gvk)
			}
		}
		switch {
		case len(waiting) == 0:
			return nil
		case time.Now().After(deadline):
			return i.unserved(ctx, waiting)
		case !reported:
			reported = true
			i.Progress("waiting until %s served", diag.Counted(len(waiting), "kind is", "kinds are"))
		}
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		if err := i.checkHold(ctx); err != nil {
			return err
		}
	}
}

func (i *Import) serves(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	definition, err := i.get(ctx, crdKind, "", kind.Name(gvk.Group, gvk.Kind))
	if err != nil {
		return false, err
	}
	if definition != nil && !condition.Read(definition).IsTrue("Established") {
		return false, nil
	}
	var r reader
	if r, err = i.objects(gvk, ""); err == nil {
		_, err = r.List(ctx, metav1.ListOptions{Limit: 1})
	}
	switch {
	case isUnserved(err), err != nil && isNotServingYet(err):
		return false, nil
	}
	return err == nil, err
}

// unserved returns a KindsError with the status of each kind's definition.
func (i *Import) unserved(ctx context.Context, kinds map[schema.GroupVersionKind]bool) error {
	out := &KindsError{}
	for gvk := range kinds {
		why := "the controllers might not be running: start them with 'espalier run'"
		for _, d := range i.File.Sections[archive.Definitions] {
			if !slices.ContainsFunc(archive.Defines(d), func(defines schema.GroupVersionKind) bool { return defines.GroupKind() == gvk.GroupKind() }) {
				continue
			}
			live, err := i.get(ctx, d.GroupVersionKind(), d.GetNamespace(), d.GetName())
			if err != nil {
				return err
			}
			if live == nil {
				continue
			}
			if ready, ok := health.ReadyConditionOf(live); ok && ready.Message != "" {
				why = fmt.Sprintf("%s: %s", object.KeyOf(d), ready.Message)
			}
		}
		out.Waits = append(out.Waits, fmt.Sprintf("%s of %s: %s", gvk.Kind, gvk.GroupVersion(), why))
	}
	slices.Sort(out.Waits)
	return out
}
