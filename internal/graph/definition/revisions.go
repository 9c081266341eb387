package definition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/serving"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// RevisionKind is the kind of revisions of definitions.
var RevisionKind = rev.GroupVersion.WithKind(rev.GraphRevisionKind)

// Reasons of a definition without a complete record of revisions.
const (
	revisionsUnreadable = "RevisionsUnreadable"
	revisionNotKept     = "RevisionNotKept"
	revisionMissing     = "RevisionMissing"
	revisionInvalid     = "RevisionInvalid"
	rolloutInvalid      = "InvalidRollout"
	secretNotKept       = "NotKept"
)

// secretOutputs is the reason of the event of a revision that puts data of Secrets into outputs
// and is accepted.
const secretOutputs = "SecretOutputs"

// unrecorded says why no revision has the definition's content; the zero value says that one
// has. The definition is served without a revision.
type unrecorded struct {
	reason, message string
	// intended: this is not an error.
	intended bool
}

// loadRevisions reads the revisions of the definition and adopts them. The reconcile ends
// here while they are unknown.
func (v *session) loadRevisions(ctx context.Context) reconcile.Result {
	all, state := v.revisions().List(v.lease, v.Key)
	switch state.Phase {
	case watch.Synced:
	case watch.Unavailable:
		v.history.unrecorded = unrecorded{reason: revisionsUnreadable, message: "cannot read revisions: " + state.Message}
		return reconcile.Result{}
	default:
		return reconcile.Done() // the lease enqueues the definition
	}
	var read []*rev.GraphRevision
	for _, o := range all {
		one, err := v.memory.cache.decode(o)
		if err != nil {
			return reconcile.Fail(err)
		}
		if !revision.BelongsTo(one, v.owner) {
			continue
		}
		if read = append(read, one); v.memory.cache.isReleased(one) {
			continue
		}
		if err := v.adopt(ctx, o); err != nil {
			return serving.ResultOf(err)
		}
		v.history.revisions = append(v.history.revisions, one)
	}
	revision.Sort(v.history.revisions)
	v.memory.cache.retain(read)
	v.resume()
	return v.confirmIssued(ctx, read)
}

// confirmIssued ends the reconcile if the revision that was issued last exists and the cache has not observed it: the
// watch of revisions can be behind the watch of definitions, and a definition may be restored with its revisions. A
// revision with another number would be issued for the same content.
func (v *session) confirmIssued(ctx context.Context, read []*rev.GraphRevision) reconcile.Result {
	last := v.status.LastIssuedRevision
	if last == 0 || last == v.memory.cache.absent || slices.ContainsFunc(read, func(one *rev.GraphRevision) bool { return one.Spec.Revision >= last }) {
		return reconcile.Result{}
	}
	live, err := v.Cluster.Get(ctx, RevisionKind, "", revision.Name(v.owner, last))
	switch {
	case apierrors.IsNotFound(err):
		v.memory.cache.absent = last
		return reconcile.Result{}
	case err != nil:
		return reconcile.Fail(kube.Redacted(err))
	}
	if one, err := decodeRevision(live); err != nil || !revision.BelongsTo(one, v.owner) {
		return reconcile.Result{}
	}
	return reconcile.Conflict()
}

func (r *Dialect) revisions() serving.RevisionStore {
	return serving.RevisionStore{
		Kind: RevisionKind, Label: v1alpha1.DefinitionNameLabel, Manager: v1alpha1.InstanceManager, Cluster: r.Cluster, Hub: r.Hub,
	}
}

// adopt makes the definition the controller owner of one of its revisions, if Kubernetes allows
// it.
func (v *session) adopt(ctx context.Context, o *unstructured.Unstructured) error {
	var controller *metav1.OwnerReference
	if owner, controls := revision.OwnerReference(v.owner); controls {
		controller = &owner
	}
	return v.revisions().Adopt(ctx, v.Key, o, controller, v1alpha1.Finalizer)
}

// createRevision creates a revision of the definition, unless the newest has the same content
// or the definition does not compile. All existing numbers are known, and it makes a single
// write: numbers are unique, and a crash leaves no partial state.
func (v *session) createRevision(ctx context.Context) reconcile.Result {
	if v.history.current != 0 || v.result.graph == nil || v.history.unrecorded.reason != "" {
		return reconcile.Result{}
	}
	if v.owner.Namespace != "" && graph.HasSecretLiterals(v.source.spec) {
		v.history.unrecorded = unrecorded{reason: secretNotKept, intended: true,
			message: "no revision is created: the definition has literal values of a Secret, and revisions are cluster-scoped"}
		return reconcile.Result{}
	}
	number := revision.Next(v.history.revisions, v.status.LastIssuedRevision)
	one := revision.New(v.owner, v.source.spec, v.account.recorded(), v.GetGeneration(), number, v.Version)
	o, err := v.revisions().Encode(one)
	if err != nil {
		return reconcile.Fail(err)
	}
	if err := unstructured.SetNestedMap(o.Object, revision.AuthoredContent(v.Unstructured), "spec", "snapshot", "spec"); err != nil {
		return reconcile.Fail(fmt.Errorf("encode GraphRevision %s: %w", one.Name, err))
	}
	if c, known := v.Kinds.WholeCRD(RevisionKind.GroupKind()); known {
		if v.history.unrecorded = withoutUnstored(o, c, number); v.history.unrecorded.reason != "" {
			return reconcile.Result{}
		}
	}
	answer, err := v.revisions().Create(ctx, v.Key, o)
	switch {
	case err == nil:
	case kube.IsNameTaken(err):
		return v.resolveNameConflict(kube.ExistingObject(err))
	case kube.IsTransient(err):
		return reconcile.Fail(kube.Redacted(err))
	case kube.IsMistyped(err) && v.memory.mistyped < maxMistyped:
		v.memory.mistyped++ // a schema that was just installed takes the API server a moment to use
		return reconcile.RequeueAfter(time.Second)
	default:
		v.history.unrecorded = unrecorded{reason: revisionNotKept,
			message: fmt.Sprintf("cannot create revision %d: %s; the definition is served without a revision", number, kube.RedactedMessage(err))}
		return reconcile.Result{}
	}
	if one, err = v.memory.cache.decode(answer); err != nil {
		return reconcile.Fail(err)
	}
	v.memory.mistyped = 0
	v.history.revisions = append(v.history.revisions, one)
	v.history.current = number
	v.memory.compiled.revisions[number] = v.memory.compiled.own
	v.memory.compiled.own = &compilation{}
	v.Events.Event(v.Unstructured, telemetry.Normal, "RevisionIssued", fmt.Sprintf("created revision %d, %s", number, one.Name))
	v.Rollouts.CountIssued()
	if outputs := v.result.graph.SecretOutputs; len(outputs) > 0 {
		v.Events.Event(v.Unstructured, telemetry.Warning, secretOutputs, messageOf(outputs.Err()))
	}
	if warnings := v.result.graph.Warnings; len(warnings) > 0 {
		v.Events.Event(v.Unstructured, telemetry.Warning, "NoEffect", messageOf(warnings.Err()))
	}
	return reconcile.Result{}
}

// maxMistyped is how often a revision that the API server refuses because of its schema is created again before the schema
// counts as the reason.
const maxMistyped = 10

// withoutUnstored removes the account from a revision if the schema of revisions does not have it: then the account
// that the definition names reconciles the revision, as it does revisions of earlier releases. Without any other
// field the revision would be another definition's, or of other content, and is not kept.
func withoutUnstored(o *unstructured.Unstructured, c *apiextensionsv1.CustomResourceDefinition, number int64) unrecorded {
	schema, err := admission.New(c, RevisionKind.Version)
	if err != nil {
		return unrecorded{} // the API server says what is wrong
	}
	lacks := schema.UnknownFields(o)
	if slices.Contains(lacks, "spec.account") {
		unstructured.RemoveNestedField(o.Object, "spec", "account")
		lacks = schema.UnknownFields(o)
	}
	if len(lacks) == 0 {
		return unrecorded{}
	}
	return unrecorded{reason: revisionNotKept,
		message: fmt.Sprintf("cannot create revision %d: CustomResourceDefinition %s, which another program has installed, lacks the fields %s; the definition is served without a revision. %s",
			number, c.Name, strings.Join(lacks, ", "), replaceCRD)}
}

func (v *session) resolveNameConflict(o *unstructured.Unstructured) reconcile.Result {
	one, name := &rev.GraphRevision{}, o.GetName()
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one)
	if err == nil && revision.BelongsTo(one, v.owner) && o.GetLabels()[v1alpha1.DefinitionNameLabel] == object.LabelValue(v.Key.Name) {
		return reconcile.Conflict() // the cache has not observed it yet
	}
	v.lease.Object(RevisionKind, "", name) // the deletion of that object enqueues the definition
	v.history.unrecorded = unrecorded{reason: revisionNotKept,
		message: fmt.Sprintf("cannot create a revision: GraphRevision %s exists and does not belong to this definition; the definition is served without a revision. Delete or label that GraphRevision", name)}
	return reconcile.Result{}
}

// pruneRevisions records in each revision whether its graph compiles, deletes unused
// revisions, and removes the finalizers of deleted ones once they are unused.
func (v *session) pruneRevisions(ctx context.Context) error {
	used, known := v.revisionsInUse()
	known = known && !v.source.unreadable
	var surplus []*rev.GraphRevision
	if limit := revision.HistoryLimit(v.source.spec); known {
		surplus = revision.Prunable(v.history.revisions, limit, used)
	}
	unused := func(one *rev.GraphRevision) bool {
		return known && !used[one.Spec.Revision] && (one.DeletionTimestamp != nil || slices.Contains(surplus, one))
	}
	if slices.ContainsFunc(v.history.revisions, unused) {
		late, err := v.readPins(ctx)
		if err != nil {
			return err
		}
		maps.Copy(used, late)
	}
	all, _ := v.revisions().List(v.lease, v.Key) // as they are after the writes of this reconcile; each change enqueues the definition
	for _, o := range all {
		i := slices.IndexFunc(v.history.revisions, func(one *rev.GraphRevision) bool { return one.UID == o.GetUID() })
		if i < 0 {
			continue
		}
		one := v.history.revisions[i]
		var err error
		if unused(one) {
			err = v.deleteRevision(ctx, o)
		} else {
			err = v.verifyRevision(ctx, o, one)
		}
		if err != nil && !kube.IsStale(err) {
			return err
		}
	}
	return nil
}

// deleteRevision deletes an unused revision, and removes the finalizer: the deletion has nothing to wait for. A revision
// that has changed stays: the garbage collector may have orphaned it, because the definition's deletion asked for that.
func (v *session) deleteRevision(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetDeletionTimestamp() == nil {
		if err := v.Cluster.DeleteIfUnchanged(ctx, o); err != nil {
			return fmt.Errorf("delete GraphRevision %s: %w", o.GetName(), err)
		}
	}
	return v.releaseRevision(ctx, o)
}

func (v *session) releaseRevision(ctx context.Context, o *unstructured.Unstructured) error {
	if number, _, _ := unstructured.NestedInt64(o.Object, "spec", "revision"); number != 0 {
		delete(v.memory.compiled.revisions, number)
	}
	if err := removeFinalizer(ctx, v.Cluster, o); err != nil {
		return err
	}
	v.memory.cache.markReleased(o.GetUID()) // later requests do not find it
	return nil
}

func removeFinalizer(ctx context.Context, c *kube.Client, o *unstructured.Unstructured) error {
	_, err := c.RemoveFinalizers(ctx, o, []string{v1alpha1.Finalizer}, v1alpha1.InstanceManager)
	if err != nil && !kube.IsStale(err) {
		return fmt.Errorf("remove the finalizer of GraphRevision %s: %w", o.GetName(), err)
	}
	return nil
}

// releaseRevisions releases all revisions when their definition is deleted. The garbage collector does not delete
// revisions of a namespaced definition. They stay if instances stay, so the next definition of the name finds them.
// Revisions that the definition no longer controls stay too, because its deletion asked to orphan them.
func (v *session) releaseRevisions(ctx context.Context, orphan bool) reconcile.Result {
	lease := v.Hub.Begin(watch.Subscriber{Key: v.Key})
	all, state := v.revisions().List(lease, v.Key)
	lease.Commit()
	switch state.Phase {
	case watch.Synced:
	case watch.Unavailable:
		return reconcile.Result{} // the garbage collector deletes them
	default:
		return reconcile.Done()
	}
	_, controls := revision.OwnerReference(v.owner)
	requested, _ := v.Hub.WasOrphaned(v.GroupVersionKind(), v.Unstructured)
	orphan = orphan || requested || slices.Contains(v.GetFinalizers(), metav1.FinalizerOrphanDependents)
	last := v.status.LastIssuedRevision
	for _, o := range all {
		one := &rev.GraphRevision{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one) != nil || !revision.BelongsTo(one, v.owner) {
			continue
		}
		controlled := slices.ContainsFunc(one.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == v.owner.UID })
		release := v.deleteRevision
		if (orphan || controls && !controlled) && one.DeletionTimestamp == nil {
			note := ""
			if one.Spec.Revision == last {
				note = v.servedNote()
			}
			release = func(ctx context.Context, o *unstructured.Unstructured) error {
				return v.orphanRevision(ctx, o, note)
			}
		}
		if err := release(ctx, o); err != nil {
			return serving.ResultOf(err)
		}
	}
	return reconcile.Result{}
}

// statusOf decodes a definition's status; a status that cannot be decoded counts as none. A
// definition that was restored from an export has parts of it in an annotation.
func statusOf(raw *unstructured.Unstructured) (status v1alpha1.DefinitionStatus) {
	if fields, ok := raw.Object["status"].(map[string]any); ok && len(fields) > 0 {
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status) != nil {
			return v1alpha1.DefinitionStatus{}
		}
		if status.ObservedGeneration >= 0 { // below, it is the default of new objects
			return status
		}
	}
	return readServedNote(raw.GetAnnotations())
}
