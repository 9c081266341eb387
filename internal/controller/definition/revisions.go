package definition

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// RevisionKind is the kind of definitions' revisions.
var RevisionKind = rev.GroupVersion.WithKind(rev.GraphRevisionKind)

// Reasons of a definition whose revisions aren't as they should be.
const (
	revisionsUnreadable = "RevisionsUnreadable"
	revisionNotKept     = "RevisionNotKept"
	revisionMissing     = "RevisionMissing"
	revisionInvalid     = "RevisionInvalid"
	rolloutInvalid      = "InvalidRollout"
	secretNotKept       = "NotKept"
)

// unkept is why no revision is kept of what a definition is; the zero unkept is that one is.
// The definition is then served without.
type unkept struct {
	reason, message string
	// meant says that nothing is wrong: it is better so.
	meant bool
}

// recall reads the revisions of the definition, and makes them its own. Before they are
// known nothing can be said.
func (r *Reconciler) recall(ctx context.Context, v *visit) outcome.Outcome {
	all, state := v.lease.Matching(RevisionKind, "", labels.SelectorFromSet(labels.Set{v1alpha1.DefinitionNameLabel: inventory.LabelValue(v.key.Name)}))
	switch state.Phase {
	case watch.Synced:
	case watch.Unavailable:
		v.unkept = unkept{reason: revisionsUnreadable, message: "revisions can't be read: " + state.Message}
		return outcome.Outcome{}
	default:
		return outcome.Done() // the lease wakes the definition
	}
	var read []*rev.GraphRevision
	for _, o := range all {
		one, err := v.entry.shelf.decode(o)
		if err != nil {
			return outcome.Fail(err)
		}
		if !revision.BelongsTo(one, v.owner) {
			continue
		}
		if read = append(read, one); !v.entry.shelf.has(one) {
			continue
		}
		if err := r.adopt(ctx, v, o, one); err != nil {
			return ended(err)
		}
		v.revisions = append(v.revisions, one)
	}
	revision.Sort(v.revisions)
	v.entry.shelf.only(read)
	v.resume()
	return outcome.Outcome{}
}

// ended is how a pass ends that can't go on now: an event brings the next, or it has failed.
func ended(err error) outcome.Outcome {
	if cluster.IsGone(err) {
		return outcome.Overtaken()
	}
	return outcome.Fail(err)
}

// adopt makes the definition the controller of a revision of its name that has none, or that
// of a former incarnation, and puts the finalizer on: it was restored from a backup, say.
func (r *Reconciler) adopt(ctx context.Context, v *visit, o *unstructured.Unstructured, one *rev.GraphRevision) error {
	if one.DeletionTimestamp != nil {
		return nil
	}
	change := map[string]any{}
	if owner, controls := revision.OwnerReference(v.owner); controls && !slices.ContainsFunc(one.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
		change["ownerReferences"] = append(slices.DeleteFunc(slices.Clone(one.OwnerReferences), func(o metav1.OwnerReference) bool {
			return o.Controller != nil && *o.Controller
		}), owner)
	}
	if !slices.Contains(one.Finalizers, v1alpha1.Finalizer) {
		change["finalizers"] = append(slices.Clone(one.Finalizers), v1alpha1.Finalizer)
	}
	if len(change) == 0 {
		return nil
	}
	_, err := r.change(v, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Patch(ctx, o, map[string]any{"metadata": change}, v1alpha1.InstanceManager)
	})
	return err
}

// change makes a write to a revision.
func (r *Reconciler) change(v *visit, o *unstructured.Unstructured, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	answer, err := r.Hub.Write(o, watch.Subscriber{Key: v.key}, do)
	if err != nil {
		return nil, fmt.Errorf("write GraphRevision %s: %w", o.GetName(), err)
	}
	return answer, nil
}

// issue keeps what the definition is as a new revision, unless it is the newest already, or
// doesn't compile. It has read all numbers before, and writes one: no two revisions get the
// same, and a crash leaves nothing half done.
func (r *Reconciler) issue(ctx context.Context, v *visit) outcome.Outcome {
	if v.current != 0 || v.compiled.graph == nil || v.unkept.reason != "" {
		return outcome.Outcome{}
	}
	if v.owner.Namespace != "" && crd.HoldsSecret(v.spec) {
		v.unkept = unkept{reason: secretNotKept, meant: true, message: "no revision is kept: the definition writes out a Secret's values, and revisions aren't in its namespace"}
		return outcome.Outcome{}
	}
	number := revision.Next(v.revisions, v.status.LastIssuedRevision)
	one := revision.Make(v.owner, v.spec, v.raw.GetGeneration(), number, r.Version)
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(one)
	if err != nil {
		return outcome.Fail(fmt.Errorf("encode GraphRevision %s: %w", one.Name, err))
	}
	o := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(raw, "status")
	unstructured.RemoveNestedField(raw, "metadata", "creationTimestamp")
	if err := unstructured.SetNestedMap(raw, revision.Written(v.raw), "spec", "snapshot", "spec"); err != nil {
		return outcome.Fail(fmt.Errorf("encode GraphRevision %s: %w", one.Name, err))
	}
	answer, err := r.change(v, o, func() (*unstructured.Unstructured, error) { return r.Cluster.Create(ctx, o, v1alpha1.InstanceManager) })
	switch {
	case err == nil:
	case cluster.IsTaken(err):
		return r.taken(v, cluster.Holder(err))
	case cluster.Passes(err):
		return outcome.Fail(cluster.Quiet(err))
	default:
		v.unkept = unkept{reason: revisionNotKept, message: fmt.Sprintf("revision %d can't be kept, and the definition is served without: %s", number, cluster.Discreet(err))}
		return outcome.Outcome{}
	}
	if one, err = v.entry.shelf.decode(answer); err != nil {
		return outcome.Fail(err)
	}
	v.revisions = append(v.revisions, one)
	v.current = number
	v.entry.revisions[number] = v.entry.own
	v.entry.own = &compilation{}
	r.Events.Event(v.raw, telemetry.Normal, "RevisionIssued", fmt.Sprintf("the definition is revision %d now, %s", number, one.Name))
	r.Rollouts.Issued()
	return outcome.Outcome{}
}

// taken looks who has the name of a revision that isn't there as far as is known.
func (r *Reconciler) taken(v *visit, o *unstructured.Unstructured) outcome.Outcome {
	one, name := &rev.GraphRevision{}, o.GetName()
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one)
	if err == nil && revision.BelongsTo(one, v.owner) && o.GetLabels()[v1alpha1.DefinitionNameLabel] == inventory.LabelValue(v.key.Name) {
		return outcome.Overtaken() // its event is on its way
	}
	v.lease.Object(RevisionKind, "", name) // whoever has the name wakes the definition when it goes
	v.unkept = unkept{reason: revisionNotKept, message: fmt.Sprintf("no revision can be kept, and the definition is served without: there is a GraphRevision %s already that isn't of this definition. Delete that, or label it", name)}
	return outcome.Outcome{}
}

// curate tells of each revision whether its graph compiles, lets those go that nobody needs,
// and takes the finalizer off those that somebody has deleted, once they are out of use.
func (r *Reconciler) curate(ctx context.Context, v *visit) error {
	used, known := r.used(v)
	known = known && !v.unread
	var surplus []*rev.GraphRevision
	if limit := revision.Limit(v.spec); known {
		surplus = revision.Surplus(v.revisions, limit, used)
	}
	for _, one := range v.revisions {
		o, there := r.Hub.Served(RevisionKind, "", one.Name)
		if !there || o.GetUID() != one.UID {
			continue
		}
		var err error
		switch {
		case one.DeletionTimestamp != nil && known && !used[one.Spec.Revision]:
			err = r.letGo(ctx, v, o)
		case slices.Contains(surplus, one):
			err = r.discard(ctx, v, o)
		default:
			err = r.verify(ctx, v, o, one)
		}
		if err != nil && !cluster.IsGone(err) {
			return err
		}
	}
	return nil
}

// discard deletes a revision that nobody needs. It takes the finalizer off first: after the
// deletion there is nothing to wait for.
func (r *Reconciler) discard(ctx context.Context, v *visit, o *unstructured.Unstructured) error {
	if err := r.Cluster.Delete(ctx, o); err != nil {
		return fmt.Errorf("delete GraphRevision %s: %w", o.GetName(), err)
	}
	return r.letGo(ctx, v, o)
}

// letGo takes the finalizer off a revision that is being deleted.
func (r *Reconciler) letGo(ctx context.Context, v *visit, o *unstructured.Unstructured) error {
	if number, _, _ := unstructured.NestedInt64(o.Object, "spec", "revision"); number != 0 {
		delete(v.entry.revisions, number)
	}
	if err := free(ctx, r.Cluster, o); err != nil {
		return err
	}
	v.entry.shelf.drop(o.GetUID()) // who asks for it from now on asks for what isn't there
	return nil
}

// free takes our finalizer off.
func free(ctx context.Context, c *cluster.Client, o *unstructured.Unstructured) error {
	_, err := c.RemoveFinalizers(ctx, o, []string{v1alpha1.Finalizer}, v1alpha1.InstanceManager)
	if err != nil && !cluster.IsGone(err) {
		return fmt.Errorf("take the finalizer off GraphRevision %s: %w", o.GetName(), err)
	}
	return nil
}

// disband lets all revisions go with their definition. Those of a definition in a namespace
// the garbage collector doesn't take. They stay where instances do, for the next definition
// of the name to find them by; and so do those that it doesn't control any more, since
// its deletion asked for that.
func (r *Reconciler) disband(ctx context.Context, v *visit, stay bool) outcome.Outcome {
	lease := r.Hub.Begin(watch.Subscriber{Key: v.key})
	all, state := lease.Matching(RevisionKind, "", labels.SelectorFromSet(labels.Set{v1alpha1.DefinitionNameLabel: inventory.LabelValue(v.key.Name)}))
	lease.Commit()
	switch state.Phase {
	case watch.Synced:
	case watch.Unavailable:
		return outcome.Outcome{} // they are left to the garbage collector
	default:
		return outcome.Done()
	}
	_, controls := revision.OwnerReference(v.owner)
	stay = stay || slices.Contains(v.raw.GetFinalizers(), metav1.FinalizerOrphanDependents)
	last := v.status.LastIssuedRevision
	for _, o := range all {
		one := &rev.GraphRevision{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one) != nil || !revision.BelongsTo(one, v.owner) {
			continue
		}
		controlled := slices.ContainsFunc(one.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == v.owner.UID })
		part := r.discard
		if (stay || controls && !controlled) && one.DeletionTimestamp == nil {
			note := ""
			if one.Spec.Revision == last {
				note = v.left()
			}
			part = func(ctx context.Context, v *visit, o *unstructured.Unstructured) error {
				return r.release(ctx, v, o, note)
			}
		}
		if err := part(ctx, v, o); err != nil {
			return ended(err)
		}
	}
	return outcome.Outcome{}
}

// statusOf reads a definition's status; one that can't be read is as good as none. One that
// was restored says in an annotation what the status has no longer.
func statusOf(raw *unstructured.Unstructured) (status v1alpha1.DefinitionStatus) {
	if fields, ok := raw.Object["status"].(map[string]any); ok && len(fields) > 0 {
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status) != nil {
			return v1alpha1.DefinitionStatus{}
		}
		return status
	}
	return served(raw.GetAnnotations())
}
