package revision

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-dev/espalier/internal/serving"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Reasons of events, which the dialect's users know.
const (
	eventCreate = "CreateRevision"
	eventUpdate = "UpdateRevision"
)

// Compositions reconciles compositions: it creates their revisions.
type Compositions struct {
	Config

	// recorded holds the last problem that was recorded as an event, by composition.
	recorded sync.Map
}

type reconcileState struct {
	key         object.Key
	raw         *unstructured.Unstructured
	composition *v1.Composition
	lease       *watch.Lease
	// read are the composition's revisions as they were read, revisions the same ones decoded.
	read      []*unstructured.Unstructured
	revisions []*v1.CompositionRevision
}

// Reconcile makes the newest revision of a composition equal to the composition. It writes at most one revision
// number per reconcile, after it has read all numbers, so no two revisions get the same number and a crash leaves no
// partial state.
func (r *Compositions) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	raw, ok := r.Hub.GetCached(CompositionKind, key.Namespace, key.Name)
	if !ok || raw.GetDeletionTimestamp() != nil { // the garbage collector deletes its revisions
		r.recorded.Delete(key)
		r.Hub.Forget(watch.Subscriber{Key: key})
		return reconcile.Done()
	}
	v := &reconcileState{key: key, raw: raw, composition: &v1.Composition{}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, v.composition); err != nil {
		r.recordProblem(v, "cannot be decoded: "+err.Error())
		return reconcile.Done()
	}
	if problems := validation.IsValidLabelValue(key.Name); len(problems) > 0 {
		r.recordProblem(v, "metadata.name must be a valid label value: "+strings.Join(problems, "; "))
		return reconcile.Done()
	}
	v.lease = r.Hub.Begin(watch.Subscriber{Key: key})
	defer v.lease.Commit()
	if known, err := r.readRevisions(v); err != nil {
		return reconcile.Fail(err)
	} else if !known {
		return reconcile.Done()
	}
	for i, revision := range v.revisions {
		if err := r.adopt(ctx, v, v.read[i], revision); err != nil {
			return serving.ResultOf(err)
		}
	}
	return r.write(ctx, v, xrd.NextRevision(v.composition, v.revisions))
}

// readRevisions reads the revisions of the composition. known is false until the cache is
// synced.
func (r *Compositions) readRevisions(v *reconcileState) (known bool, err error) {
	all, state := r.revisions().List(v.lease, v.key)
	if state.Phase != watch.Synced {
		return false, nil // the lease enqueues the composition
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

// adopt makes the composition the controller of a revision with its name in the label that
// has no controller, or a composition of the same name with another UID, for example after
// a restore from a backup.
func (r *Compositions) adopt(ctx context.Context, v *reconcileState, o *unstructured.Unstructured, revision *v1.CompositionRevision) error {
	if owner := metav1.GetControllerOfNoCopy(revision); owner != nil && (owner.Kind != v1.CompositionKind || owner.Name != v.key.Name) {
		return nil
	}
	return r.revisions().Adopt(ctx, v.key, o, metav1.NewControllerRef(v.composition, CompositionKind))
}

func (r *Compositions) revisions() serving.RevisionStore {
	return serving.RevisionStore{Kind: RevisionKind, Label: v1.CompositionNameLabel, Manager: Manager, Cluster: r.Cluster, Hub: r.Hub}
}

func (r *Compositions) write(ctx context.Context, v *reconcileState, next xrd.RevisionChange) reconcile.Result {
	switch {
	case next.Create != nil:
		return r.create(ctx, v, next.Create)
	case next.Renumber != nil:
		return r.renumber(ctx, v, next.Renumber)
	}
	return r.rollOut(ctx, v)
}

func (r *Compositions) create(ctx context.Context, v *reconcileState, revision *v1.CompositionRevision) reconcile.Result {
	o, err := r.revisions().Encode(revision)
	if err != nil {
		return reconcile.Fail(err)
	}
	v.lease.Object(RevisionKind, "", revision.Name) // the deletion of another object with that name enqueues the composition
	_, err = r.revisions().Create(ctx, v.key, o)
	switch {
	case err == nil:
		r.recorded.Delete(v.key)
		r.Events.Event(v.raw, telemetry.Normal, eventCreate, fmt.Sprintf("created revision %d, %s", revision.Spec.Revision, revision.Name))
		return reconcile.Done()
	case kube.IsNameTaken(err):
		return r.nameTaken(v, kube.ExistingObject(err))
	case kube.IsTransient(err):
		return reconcile.Fail(err)
	}
	r.recordProblem(v, "cannot create a revision: "+err.Error())
	return reconcile.Done()
}

// nameTaken records a problem if the object that has the revision's name belongs to another
// composition.
func (r *Compositions) nameTaken(v *reconcileState, o *unstructured.Unstructured) reconcile.Result {
	if of := o.GetLabels()[v1.CompositionNameLabel]; of != v.key.Name {
		r.recordProblem(v, fmt.Sprintf("cannot create a revision: CompositionRevision %s exists and, by its label %s, belongs to another composition",
			o.GetName(), v1.CompositionNameLabel))
	}
	return reconcile.Done() // otherwise it is our revision, and its event is still to come
}

func (r *Compositions) renumber(ctx context.Context, v *reconcileState, revision *v1.CompositionRevision) reconcile.Result {
	at := slices.IndexFunc(v.read, func(o *unstructured.Unstructured) bool { return o.GetUID() == revision.UID })
	o := v.read[at]
	if newer, ok := r.Hub.GetCached(RevisionKind, "", o.GetName()); ok && newer.GetUID() == o.GetUID() {
		o = newer // the version after adopt
	}
	_, err := r.revisions().Write(v.key, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Patch(ctx, o, map[string]any{"spec": map[string]any{"revision": revision.Spec.Revision}}, Manager)
	})
	if err != nil {
		return serving.ResultOf(err)
	}
	r.recorded.Delete(v.key)
	r.Events.Event(v.raw, telemetry.Normal, eventUpdate, fmt.Sprintf("changed the number of revision %s to %d: the composition has its content again",
		revision.Name, revision.Spec.Revision))
	return reconcile.Done()
}

// recordProblem records an event only once per problem.
func (r *Compositions) recordProblem(v *reconcileState, text string) {
	last, _ := r.recorded.Swap(v.key, problem{v.raw.GetUID(), text})
	if last != (problem{v.raw.GetUID(), text}) {
		r.Events.Event(v.raw, telemetry.Warning, eventCreate, text)
	}
}

type problem struct {
	of   types.UID
	text string
}
