package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
)

// ErrTakenOver is returned when another process aborts the import, or has aborted it.
var ErrTakenOver = errors.New("another process has aborted this import; this one stops")

// createHold creates the import's Hold.
func (i *Import) createHold(ctx context.Context) error {
	holds, err := i.objects(holdKind, "")
	if err != nil {
		return err
	}
	live, err := holds.Create(ctx, i.newHold(archive.HoldName(i.File.Header.ID)), metav1.CreateOptions{FieldManager: Manager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("another process has begun this import: %w", err)
	case err != nil:
		return fmt.Errorf("create the Hold: %w", err)
	}
	i.hold, i.checked = live, time.Now()
	return nil
}

// takeHold makes this process the holder of the import's Hold; nil if there is none.
func (i *Import) takeHold(ctx context.Context) (*unstructured.Unstructured, error) {
	for {
		live, err := i.get(ctx, holdKind, "", archive.HoldName(i.File.Header.ID))
		if isUnserved(err) || err == nil && live == nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		holds, err := i.objects(holdKind, "")
		if err != nil {
			return nil, err
		}
		_ = unstructured.SetNestedField(live.Object, i.Holder, "spec", "holder") // it has a spec
		live, err = holds.Update(ctx, live, metav1.UpdateOptions{FieldManager: Manager})
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			continue // the controllers have written its status, or the import has ended
		case err != nil:
			return nil, fmt.Errorf("update the Hold: %w", err)
		}
		i.hold, i.checked = live, time.Now()
		return live, nil
	}
}

func (i *Import) newHold(name string) *unstructured.Unstructured {
	h := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"reason": fmt.Sprintf("import of an export of %s", i.File.Header.At.Format(time.RFC3339)),
		"import": i.File.Header.ID, "holder": i.Holder,
	}}}
	h.SetGroupVersionKind(holdKind)
	h.SetName(name)
	return h
}

// checkEvery bounds how long a process continues after another has begun to abort its import.
const checkEvery = time.Second

// checkHold checks, about once a second, that this process still has the Hold.
func (i *Import) checkHold(ctx context.Context) error {
	if time.Since(i.checked) < checkEvery {
		return nil
	}
	_, err := i.readHold(ctx)
	return err
}

// readHold reads the Hold. It returns ErrTakenOver unless this process has it.
func (i *Import) readHold(ctx context.Context) (*unstructured.Unstructured, error) {
	live, err := i.get(ctx, holdKind, "", i.hold.GetName())
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetUID() != i.hold.GetUID() {
		return nil, ErrTakenOver
	}
	if holder, _, _ := unstructured.NestedString(live.Object, "spec", "holder"); holder != i.Holder {
		return nil, ErrTakenOver
	}
	i.checked = time.Now()
	return live, nil
}

// release deletes the Hold, if this process still has it.
func (i *Import) release(ctx context.Context) error {
	holds, err := i.objects(holdKind, "")
	if err != nil {
		return err
	}
	for {
		live, err := i.readHold(ctx)
		if err != nil {
			return err
		}
		uid, revision := live.GetUID(), live.GetResourceVersion()
		err = holds.Delete(ctx, live.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision}})
		switch {
		case apierrors.IsConflict(err):
			continue // the controllers may have written its status
		case err != nil:
			return fmt.Errorf("delete the Hold: %w", err)
		}
		return nil
	}
}
