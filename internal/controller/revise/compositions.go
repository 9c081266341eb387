package revise

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
	"github.com/espalier-dev/espalier/internal/xrd"
)

// Reasons of events, which the dialect's users know.
const (
	eventCreate = "CreateRevision"
	eventUpdate = "UpdateRevision"
)

// Compositions makes the revisions of compositions.
type Compositions struct {
	Config

	// alarmed has the compositions of which a problem was told, with its text.
	alarmed sync.Map
}

// visit is one pass over one composition.
type visit struct {
	key         object.Key
	raw         *unstructured.Unstructured
	composition *v1.Composition
	lease       *watch.Lease
	// revisions are those that there are, as they were read and as values.
	read      []*unstructured.Unstructured
	revisions []*v1.CompositionRevision
}

// Reconcile sees to it that the newest revision of a composition is what the composition
// is. There is at most one write of a number in a pass, by one who has read all numbers:
// no two revisions get the same, and a crash leaves nothing half done.
func (r *Compositions) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	raw, ok := r.Hub.Served(CompositionKind, key.Namespace, key.Name)
	if !ok || raw.GetDeletionTimestamp() != nil { // the garbage collector takes its revisions
		r.alarmed.Delete(key)
		r.Hub.Forget(watch.Subscriber{Key: key})
		return outcome.Done()
	}
	v := &visit{key: key, raw: raw, composition: &v1.Composition{}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, v.composition); err != nil {
		r.alarm(v, "can't be read: "+err.Error())
		return outcome.Done()
	}
	if problems := validation.IsValidLabelValue(key.Name); len(problems) > 0 {
		r.alarm(v, "no revision can be made of it, since its name is also a label of its revisions: "+strings.Join(problems, "; "))
		return outcome.Done()
	}
	v.lease = r.Hub.Begin(watch.Subscriber{Key: key})
	defer v.lease.Commit()
	if known, err := r.gather(v); !known {
		return ended(err)
	}
	for i, revision := range v.revisions {
		if err := r.adopt(ctx, v, v.read[i], revision); err != nil {
			return ended(err)
		}
	}
	return r.write(ctx, v, xrd.NextRevision(v.composition, v.revisions))
}

// ended is how a pass ends that can't go on now: an event brings the next, or it has failed.
func ended(err error) outcome.Outcome {
	switch {
	case err == nil:
		return outcome.Done()
	case cluster.IsGone(err):
		return outcome.Overtaken()
	}
	return outcome.Fail(err)
}

// gather reads the revisions of the composition. Unless all are known nothing can be said.
func (r *Compositions) gather(v *visit) (known bool, err error) {
	all, state := v.lease.Matching(RevisionKind, "", labels.SelectorFromSet(labels.Set{v1.CompositionNameLabel: v.key.Name}))
	if state.Phase != watch.Synced {
		return false, nil // the lease wakes the composition
	}
	v.read = all
	for _, o := range all {
		revision := &v1.CompositionRevision{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, revision); err != nil {
			return false, fmt.Errorf("decode CompositionRevision %s: %w", o.GetName(), err)
		}
		v.revisions = append(v.revisions, revision)
	}
	return true, nil
}

// adopt makes the composition the controller of a revision of its name that has none, or
// that of a former incarnation: it was restored from a backup, say.
func (r *Compositions) adopt(ctx context.Context, v *visit, o *unstructured.Unstructured, revision *v1.CompositionRevision) error {
	if metav1.IsControlledBy(revision, v.composition) || revision.DeletionTimestamp != nil {
		return nil
	}
	if owner := metav1.GetControllerOfNoCopy(revision); owner != nil && (owner.Kind != v1.CompositionKind || owner.Name != v.key.Name) {
		return nil
	}
	owners := slices.DeleteFunc(slices.Clone(revision.OwnerReferences), func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller || o.UID == v.composition.UID
	})
	owners = append(owners, *metav1.NewControllerRef(v.composition, CompositionKind))
	return r.change(v, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Patch(ctx, o, map[string]any{"metadata": map[string]any{"ownerReferences": owners}}, Manager)
	})
}

// change makes a write to a revision.
func (r *Compositions) change(v *visit, o *unstructured.Unstructured, do func() (*unstructured.Unstructured, error)) error {
	if _, err := r.Hub.Write(o, watch.Subscriber{Key: v.key}, do); err != nil {
		return fmt.Errorf("write CompositionRevision %s: %w", o.GetName(), err)
	}
	return nil
}

// write writes what there is to write, if anything.
func (r *Compositions) write(ctx context.Context, v *visit, next xrd.Next) outcome.Outcome {
	switch {
	case next.Create != nil:
		return r.create(ctx, v, next.Create)
	case next.Renumber != nil:
		return r.renumber(ctx, v, next.Renumber)
	}
	r.alarmed.Delete(v.key)
	return outcome.Done()
}

func (r *Compositions) create(ctx context.Context, v *visit, revision *v1.CompositionRevision) outcome.Outcome {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(revision)
	if err != nil {
		return outcome.Fail(fmt.Errorf("encode CompositionRevision %s: %w", revision.Name, err))
	}
	o := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(raw, "status")
	unstructured.RemoveNestedField(raw, "metadata", "creationTimestamp")
	v.lease.Object(RevisionKind, "", revision.Name) // whoever has the name wakes the composition when it goes
	err = r.change(v, o, func() (*unstructured.Unstructured, error) { return r.Cluster.Create(ctx, o, Manager) })
	switch {
	case err == nil:
		r.alarmed.Delete(v.key)
		r.Events.Event(v.raw, telemetry.Normal, eventCreate, fmt.Sprintf("created revision %d, %s", revision.Spec.Revision, revision.Name))
		return outcome.Done()
	case cluster.IsTaken(err):
		return r.taken(v, cluster.Holder(err))
	case cluster.Passes(err):
		return outcome.Fail(err)
	}
	r.alarm(v, "no revision can be made of it: "+err.Error())
	return outcome.Done()
}

// taken looks who has the name of a revision that isn't there as far as is known.
func (r *Compositions) taken(v *visit, o *unstructured.Unstructured) outcome.Outcome {
	if of := o.GetLabels()[v1.CompositionNameLabel]; of != v.key.Name {
		r.alarm(v, fmt.Sprintf("no revision can be made of it: there is a CompositionRevision %s already, and label %s says that it is not this composition's", o.GetName(), v1.CompositionNameLabel))
	}
	return outcome.Done() // else its event is on its way
}

func (r *Compositions) renumber(ctx context.Context, v *visit, revision *v1.CompositionRevision) outcome.Outcome {
	at := slices.IndexFunc(v.read, func(o *unstructured.Unstructured) bool { return o.GetUID() == revision.UID })
	o := v.read[at]
	if newer, ok := r.Hub.Served(RevisionKind, "", o.GetName()); ok && newer.GetUID() == o.GetUID() {
		o = newer // it may just have been adopted
	}
	err := r.change(v, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Patch(ctx, o, map[string]any{"spec": map[string]any{"revision": revision.Spec.Revision}}, Manager)
	})
	if err != nil {
		return ended(err)
	}
	r.alarmed.Delete(v.key)
	r.Events.Event(v.raw, telemetry.Normal, eventUpdate, fmt.Sprintf("revision %s is number %d now: the composition is what it was then", revision.Name, revision.Spec.Revision))
	return outcome.Done()
}

// alarm tells of a problem, once.
func (r *Compositions) alarm(v *visit, text string) {
	said, _ := r.alarmed.Swap(v.key, alarm{v.raw.GetUID(), text})
	if said != (alarm{v.raw.GetUID(), text}) {
		r.Events.Event(v.raw, telemetry.Warning, eventCreate, text)
	}
}

type alarm struct {
	of   types.UID
	text string
}
