package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// allOverrides are the settings of a definition whose instances may override all of its deletion
// policies.
var allOverrides = inventory.Defaults{Overrides: inventory.Overrides{DeletionPolicy: v1alpha1.OverrideAll}}

type change = func(*unstructured.Unstructured)

// left is a child that is left, of a node of its own name.
func left(name string, at inventory.Place, with ...change) *unstructured.Unstructured {
	o := rendered(name)
	at.Node = name
	owner.Mark(o, at)
	o.SetUID(types.UID("uid-" + name))
	o.SetResourceVersion("1")
	for _, f := range with {
		f(o)
	}
	return o
}

// unordered takes off what a former version didn't write.
func unordered(o *unstructured.Unstructured) {
	annotations := o.GetAnnotations()
	delete(annotations, v1alpha1.DependsOnAnnotation)
	o.SetAnnotations(annotations)
}

// trials know the same of several children.
func trials(t plan.DeletionAttempts, uids ...types.UID) plan.DeletionHistory {
	out := plan.DeletionHistory{Children: map[types.UID]plan.DeletionAttempts{}}
	for _, uid := range uids {
		out.Children[uid] = t
	}
	return out
}

func noticedAt(times map[types.UID]time.Time) plan.DeletionHistory {
	out := plan.DeletionHistory{Children: map[types.UID]plan.DeletionAttempts{}}
	for uid, at := range times {
		out.Children[uid] = plan.DeletionAttempts{FirstSeen: at, ChangedAt: at, ResourceVersion: "1"}
	}
	return out
}

// prune decides by what instance and children say.
func prune(r plan.Remaining) plan.Pruning {
	policies, _ := inventory.PoliciesOf(r.Instance, r.Defaults)
	return plan.Prune(r, policies)
}

func layer(n int) inventory.Place { return inventory.Place{Layer: n} }

func annotated(key, value string) change {
	return func(o *unstructured.Unstructured) {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		o.SetAnnotations(annotations)
	}
}

func held(finalizers ...string) change {
	return func(o *unstructured.Unstructured) { dying(o); o.SetFinalizers(finalizers) }
}

// nested makes a child an instance that is being torn down itself.
func nested(blockers ...report.Blocker) change {
	return func(o *unstructured.Unstructured) {
		held(v1alpha1.Finalizer)(o)
		labels := o.GetLabels()
		labels[v1alpha1.ApplySetIDLabel] = "applyset-x-v1"
		o.SetLabels(labels)
		said := report.Status{State: v1alpha1.InstanceDeleting, Deletion: &report.Deletion{StartedAt: report.At(now), Blockers: blockers}}
		o.Object["status"] = said.Render(nil, report.AllFields)
	}
}

// saysDeleting makes the status of a nested instance one without blockers.
func saysDeleting(o *unstructured.Unstructured) {
	o.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "False", "reason": "Deleting", "message": "1 of 2 are gone"},
	}}
}

// paused adds to the status of a nested instance that it is paused.
func paused(o *unstructured.Unstructured) {
	status, _ := o.Object["status"].(map[string]any)
	status["conditions"] = []any{
		map[string]any{"type": "Synced", "status": "False", "reason": "ReconcilePaused", "message": "deletion waits: paused"},
	}
}

// asComposite makes a nested instance a composite with a claim, which another engine serves.
func asComposite(o *unstructured.Unstructured) {
	o.SetFinalizers([]string{"x/y"})
	labels := o.GetLabels()
	delete(labels, v1alpha1.ApplySetIDLabel)
	o.SetLabels(labels)
	o.Object["spec"] = map[string]any{"claimRef": map[string]any{"apiVersion": "a/v1", "kind": "Claim", "namespace": "prod", "name": "x"}}
}

func instance(with ...change) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(owner.Kind)
	o.SetNamespace(owner.Namespace)
	o.SetName(owner.Name)
	o.SetUID(owner.UID)
	held(v1alpha1.Finalizer)(o)
	for _, f := range with {
		f(o)
	}
	return o
}

func deepCause() report.Blocker {
	bottom := report.BlockedObject{Object: report.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "deep"}, Reason: report.HeldByFinalizer, Message: "held by finalizer x/y", Since: report.At(now)}
	return report.Blocker{BlockedObject: report.BlockedObject{Object: report.Object{APIVersion: "a/v1", Kind: "Low", Name: "low"}, Reason: report.ChildBlocked, Message: "waits", Since: report.At(now)}, Cause: &bottom}
}

var (
	long   = now.Add(-time.Hour)
	bucket = schema.GroupVersionKind{Group: "s3.example.com", Version: "v1", Kind: "Bucket"}
)

func TestTeardown(t *testing.T) {
	noticed := trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: long, ResourceVersion: "1"}, "uid-a", "uid-b", "i-1")
	refused := func(times int, when time.Time, of *unstructured.Unstructured) plan.DeletionHistory {
		t := plan.DeletionAttempts{}
		for range times {
			t = t.Refused(report.DeniedByWebhook, "no", of, when)
		}
		return trials(t, "uid-a")
	}
	unreadable := func(reason plan.Reason) map[schema.GroupVersionKind]plan.Unreadable {
		return map[schema.GroupVersionKind]plan.Unreadable{bucket: {Problem: plan.Problem{Reason: reason, Message: "why"}, Since: long}}
	}
	policy := func(p v1alpha1.DeletionPolicy) inventory.Place { return inventory.Place{OnDelete: p} }
	cases := map[string]struct {
		reason   string
		remains  plan.Remaining
		del      string
		release  string
		blockers []string
		left     string
		progress string
		wave     string
		done     bool
		retry    time.Duration
		stalled  bool
	}{
		"Without children it is done": {
			reason: "nothing is left", done: true, progress: "0/0", wave: "0/0",
		},
		"The last layer is deleted first, in parallel": {
			reason:  "nothing loses what it stands on",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0)), left("c", layer(2)), left("b", layer(2)), left("d", layer(1))}},
			del:     "b c", progress: "0/4", wave: "1/3",
		},
		"A wave is waited for": {
			reason:   "what is on its way still needs the layers below",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0)), left("b", layer(1), dying)}},
			progress: "0/2", wave: "1/2", retry: 30 * time.Second,
		},
		"The rest of a wave is deleted while one object is terminating": {
			reason:  "they don't depend on each other",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(1)), left("b", layer(1), dying)}},
			del:     "a", progress: "0/2", wave: "1/1", retry: 30 * time.Second,
		},
		"Children of an instance that another engine released stay": {
			reason:  "the garbage collector deletes them, and terminating ones are reported",
			remains: plan.Remaining{ReleasedElsewhere: true, Children: []*unstructured.Unstructured{left("a", layer(2)), left("b", layer(1), dying)}},
			del:     "", progress: "0/1", wave: "1/1", retry: 30 * time.Second,
		},
		"A child without a layer is deleted first": {
			reason:  "it may depend on anything",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(500)), left("b", layer(0), func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })}},
			del:     "b", progress: "0/2", wave: "1/2",
		},
		"deleteAfter puts a node behind another of its layer": {
			reason:  "data dependencies don't order everything",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", inventory.Place{DeleteAfter: []string{"b"}}), left("b", layer(0))}},
			del:     "b", progress: "0/2", wave: "1/2",
		},
		"deleteAfter delays the dependencies of the other node": {
			reason: "the order is one of the whole",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{
				left("a", inventory.Place{Layer: 3, DeleteAfter: []string{"b"}}), left("b", layer(0)), left("c", inventory.Place{Layer: 1, DependsOn: []string{"b"}}),
			}},
			del: "c", progress: "0/3", wave: "1/3",
		},
		"A contradiction delays nothing": {
			reason:  "any user may write annotations, and every deletion must end",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", inventory.Place{DeleteAfter: []string{"b"}}), left("b", inventory.Place{DeleteAfter: []string{"a"}})}},
			del:     "a", progress: "0/2", wave: "1/2",
		},
		"An accepted deletion isn't requested again": {
			reason:   "the cache is about to show that it goes",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0))}, History: trials(plan.DeletionAttempts{}.Accepted(now), "uid-a")},
			progress: "0/1", wave: "1/1", retry: 10 * time.Second,
		},
		"A finalizer isn't reported at once": {
			reason:   "most are taken off within milliseconds",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), held("x/y"))}},
			progress: "0/1", wave: "1/1", retry: 200 * time.Millisecond,
		},
		"A finalizer is a blocker after a delay": {
			reason:   "a user may have to act",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), held("x/y"))}, History: noticed},
			blockers: []string{"ConfigMap prod/a: Finalizer: held by finalizer x/y"}, progress: "0/1", wave: "1/1",
		},
		"A nested instance without controller is a blocker after seconds": {
			reason:   "in a crowd it may wait for its turn",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(), func(o *unstructured.Unstructured) { delete(o.Object, "status") })}, History: trials(plan.DeletionAttempts{FirstSeen: now.Add(-time.Second)}, "uid-a")},
			progress: "0/1", wave: "1/1", retry: 14 * time.Second,
		},
		"A nested instance that reports its deletion is no blocker": {
			reason:   "it reports its own blockers",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested())}, History: trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: now, ResourceVersion: "1"}, "uid-a")},
			progress: "0/1", wave: "1/1", retry: time.Minute,
		},
		"A nested instance whose status says that it is being deleted is reported after seconds": {
			reason:   "its kind has no field for blockers",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(), saysDeleting)}},
			progress: "0/1", wave: "1/1", retry: 5 * time.Second,
		},
		"The condition of a nested instance is reported": {
			reason:   "it says what the deletion waits for",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(), saysDeleting)}, History: noticed},
			blockers: []string{"ConfigMap prod/a: ChildBlocked: its status says: 1 of 2 are gone"}, progress: "0/1", wave: "1/1",
		},
		"A nested instance that is paused is reported soon": {
			reason:   "it stays until a user resumes it",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(), paused)}},
			progress: "0/1", wave: "1/1", retry: 200 * time.Millisecond,
		},
		"The pause of a nested instance is reported, and not what was blocked before": {
			reason:   "its controller does nothing about that",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(deepCause()), paused)}, History: noticed},
			blockers: []string{"ConfigMap prod/a: ChildBlocked: its status says: deletion waits: paused"}, progress: "0/1", wave: "1/1",
		},
		"A nested instance that only another finalizer keeps is held by it": {
			reason:   "its children are gone",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(), held("x/y"))}, History: noticed},
			blockers: []string{"ConfigMap prod/a: Finalizer: held by finalizer x/y"}, progress: "0/1", wave: "1/1",
		},
		"An object with our finalizer that is no instance is held by it": {
			reason:   "no controller of ours removes it",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), held(v1alpha1.Finalizer))}},
			progress: "0/1", wave: "1/1", retry: 200 * time.Millisecond,
		},
		"A composite that another engine is deleting reports its blockers": {
			reason:   "its status has the same fields",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(deepCause()), asComposite)}},
			blockers: []string{"ConfigMap prod/a: ChildBlocked: waits for ConfigMap deep: Finalizer: held by finalizer x/y [ConfigMap deep]"}, progress: "0/1", wave: "1/1",
		},
		"A composite that reports no blockers is held by its finalizer": {
			reason:   "a user may have to act",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(), asComposite)}, History: noticed},
			blockers: []string{"ConfigMap prod/a: Finalizer: held by finalizer x/y"}, progress: "0/1", wave: "1/1",
		},
		"An object of a foreign kind is held by its finalizer": {
			reason:   "blockers in its status may mean anything",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(deepCause()), asComposite, func(o *unstructured.Unstructured) { delete(o.Object, "spec") })}, History: noticed},
			blockers: []string{"ConfigMap prod/a: Finalizer: held by finalizer x/y"}, progress: "0/1", wave: "1/1",
		},
		"A terminating object that changes is no blocker": {
			reason:   "its controller is at work",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), dying)}, History: trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: now.Add(-time.Second)}, "uid-a")},
			progress: "0/1", wave: "1/1", retry: 29 * time.Second,
		},
		"Finalizers that are not those of before are named alone": {
			reason:   "the ones of before are gone, and nobody has looked up who added these",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), held("a/b"))}, History: trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: long, Finalizers: []report.Finalizer{{Name: "x/y", Managers: []string{"kubectl"}}}}, "uid-a")},
			blockers: []string{"ConfigMap prod/a: Finalizer: held by finalizer a/b"}, progress: "0/1", wave: "1/1",
		},
		"The grace period of a deletion is waited for": {
			reason:   "it ends then",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), endsAt(now.Add(time.Minute), time.Minute))}},
			progress: "0/1", wave: "1/1", retry: 90 * time.Second,
		},
		"The grace period of a deletion is waited for once it is under way": {
			reason:   "what passed of it counts once",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), endsAt(now.Add(15*time.Second), time.Minute))}, History: trials(plan.DeletionAttempts{FirstSeen: now.Add(-45 * time.Second), ChangedAt: now.Add(-45 * time.Second)}, "uid-a")},
			progress: "0/1", wave: "1/1", retry: 45 * time.Second,
		},
		"A deletion without a grace period, by a clock that is an hour ahead": {
			reason:   "the time on the object is that of another machine",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), endsAt(now.Add(time.Hour), 0))}},
			progress: "0/1", wave: "1/1", retry: 30 * time.Second,
		},
		"A usage without user that is being deleted is reported after seconds": {
			reason:   "its controller reports first",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("u", layer(0), asUsage("y", ""), dying)}},
			progress: "0/1", wave: "1/1", retry: 15 * time.Second,
		},
		"The root cause of a nested instance is reported": {
			reason:   "a user can act on it",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(deepCause()))}},
			blockers: []string{"ConfigMap prod/a: ChildBlocked: waits for ConfigMap deep: Finalizer: held by finalizer x/y [ConfigMap deep]"}, progress: "0/1", wave: "1/1",
		},
		"A managed resource reports its external resource": {
			reason: "its own condition knows why",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), held("finalizer.managedresource.crossplane.io"), func(o *unstructured.Unstructured) {
				o.Object["status"] = map[string]any{"conditions": []any{
					map[string]any{"type": "Ready", "status": "False", "reason": "Deleting"},
					map[string]any{"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "DependencyViolation"},
				}}
			})}, History: noticed},
			blockers: []string{"ConfigMap prod/a: ExternalDeletion: the external resource still exists: ReconcileError: DependencyViolation"}, progress: "0/1", wave: "1/1",
		},
		"A managed resource with a finalizer of another controller is held by that": {
			reason: "its provider waits until the other finalizers are removed",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), held("finalizer.managedresource.crossplane.io", "x/y"), func(o *unstructured.Unstructured) {
				o.Object["status"] = map[string]any{"conditions": []any{
					map[string]any{"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "the other finalizers"},
				}}
			})}, History: trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: long, Finalizers: []report.Finalizer{{Name: "finalizer.managedresource.crossplane.io", Managers: []string{"espalier"}}, {Name: "x/y", Managers: []string{"kubectl-patch"}}}}, "uid-a")},
			blockers: []string{"ConfigMap prod/a: Finalizer: held by finalizer x/y, added by kubectl-patch; the external resource still exists"}, progress: "0/1", wave: "1/1",
		},
		"A managed resource that only the garbage collector holds is reported later": {
			reason:   "it removes its finalizers by itself",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), held("finalizer.managedresource.crossplane.io", "foregroundDeletion"))}, History: trials(plan.DeletionAttempts{FirstSeen: now.Add(-time.Second)}, "uid-a")},
			progress: "0/1", wave: "1/1", retry: 4 * time.Second,
		},
		"An external deletion without a problem is in progress, and reported last": {
			reason: "no user has to act",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{
				left("a", layer(0), held("finalizer.managedresource.crossplane.io"), func(o *unstructured.Unstructured) {
					o.Object["status"] = map[string]any{"conditions": []any{
						map[string]any{"type": "Ready", "status": "False", "reason": "Deleting"}, map[string]any{"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
					}}
				}),
				left("b", layer(0), held("x/y")),
			}, History: noticed},
			blockers: []string{"ConfigMap prod/b: Finalizer: held by finalizer x/y", "ConfigMap prod/a: ExternalDeletion: the external resource still exists: Deleting (in progress)"}, progress: "0/2", wave: "1/1",
		},
		"An instance that only waits for such a deletion is in progress": {
			reason: "it says so from layer to layer",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0), nested(report.Blocker{BlockedObject: report.BlockedObject{
				Object: report.Object{APIVersion: "a/v1", Kind: "Bucket", Name: "low"}, Reason: report.ExternalDeletion, Message: "is going", InProgress: true, Since: report.At(now),
			}}))}},
			blockers: []string{"ConfigMap prod/a: ChildBlocked: waits for Bucket low: ExternalDeletion: is going [Bucket low] (in progress)"}, progress: "0/1", wave: "1/1",
		},
		"A protected child stays with its dependencies": {
			reason:   "a user requested it",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(1), annotated(v1alpha1.ProtectAnnotation, "data")), left("b", layer(0)), left("c", layer(1))}},
			del:      "c",
			blockers: []string{"ConfigMap prod/a: Protected: protected: data; remove the annotation espalier.dev/protect to allow its deletion"}, progress: "0/3", wave: "1/2",
		},
		"Nothing of a protected instance is deleted": {
			reason:   "it can't be kept, but all of it can",
			remains:  plan.Remaining{Instance: instance(annotated(v1alpha1.ProtectAnnotation, "")), Children: []*unstructured.Unstructured{left("a", layer(0))}},
			blockers: []string{"Vpc prod/main: Protected: protected: no reason given; remove the annotation espalier.dev/protect to allow its deletion"}, progress: "0/1", wave: "1/1",
		},
		"A protected instance without children stays as well": {
			reason:   "the protection is the instance's",
			remains:  plan.Remaining{Instance: instance(annotated(v1alpha1.ProtectAnnotation, ""))},
			blockers: []string{"Vpc prod/main: Protected: protected: no reason given; remove the annotation espalier.dev/protect to allow its deletion"}, progress: "0/0", wave: "0/0",
		},
		"A refused deletion is requested again later": {
			reason:   "no event shows when the webhook allows it",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0))}, History: refused(20, now, left("a", layer(0)))},
			blockers: []string{"ConfigMap prod/a: DeniedByWebhook: no"}, progress: "0/1", wave: "1/1", retry: 30 * time.Second,
		},
		"A refused deletion is requested again when the object has changed": {
			reason:   "the change may satisfy the webhook",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0))}, History: refused(20, now.Add(-6*time.Second), left("a", layer(1)))},
			del:      "a",
			blockers: []string{"ConfigMap prod/a: DeniedByWebhook: no"}, progress: "0/1", wave: "1/1",
		},
		"A kind that isn't served blocks everything": {
			reason:   "objects of it may depend on the others",
			remains:  plan.Remaining{Children: []*unstructured.Unstructured{left("a", layer(0))}, Unreadable: unreadable(plan.WaitingForKind)},
			blockers: []string{"objects of kind Bucket: KindUnavailable: cannot determine which objects remain: why"}, progress: "0/1", wave: "1/1",
		},
		"A kind that is forbidden to read blocks everything": {
			reason:   "objects of it may depend on the others",
			remains:  plan.Remaining{Unreadable: unreadable(plan.Forbidden)},
			blockers: []string{"objects of kind Bucket: Forbidden: cannot determine which objects remain: why"}, progress: "", wave: "0/0",
		},
		"A kind whose watch fails blocks everything": {
			reason:   "objects of it may depend on the others",
			remains:  plan.Remaining{Unreadable: unreadable(plan.Unavailable)},
			blockers: []string{"objects of kind Bucket: OutOfReach: cannot determine which objects remain: why"}, progress: "", wave: "0/0",
		},
		"A kind that is being listed is no blocker, and the deletion waits for it": {
			reason:   "it takes a moment",
			remains:  plan.Remaining{Unreadable: unreadable(plan.Syncing)},
			progress: "", wave: "0/0",
		},
		"An orphan is released": {
			reason:  "the author wants it to stay",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", policy(v1alpha1.DeletionOrphan)), left("b", layer(0))}},
			del:     "b", release: "a", progress: "0/1", wave: "1/1",
		},
		"A retained child keeps its marks": {
			reason:  "an instance of the same name takes it on again",
			remains: plan.Remaining{Children: []*unstructured.Unstructured{left("a", policy(v1alpha1.DeletionRetain))}},
			done:    true, progress: "0/0", wave: "0/0",
		},
		"The policy of the instance overrides the definition's": {
			reason: "the definition allows it",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.DeletionPolicyAnnotation, "Retain, a=Delete")), Defaults: allOverrides, Children: []*unstructured.Unstructured{
				left("a", policy(v1alpha1.DeletionOrphan)), left("b", layer(0)),
			}},
			del: "a", progress: "0/1", wave: "1/1",
		},
		"The policy of the instance deletes nothing that the definition preserves": {
			reason: "its author allows instances to preserve only",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.DeletionPolicyAnnotation, "Retain, a=Delete")), Children: []*unstructured.Unstructured{
				left("a", policy(v1alpha1.DeletionOrphan)), left("b", layer(0)),
			}},
			release: "a", progress: "0/0", wave: "0/0",
		},
		"Recorded settings don't count where the definition's are known": {
			reason: "whoever may write the instance may have changed them",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.DeletionDefaultsAnnotation, "overrides=deletionPolicy:All"), annotated(v1alpha1.DeletionPolicyAnnotation, "Delete")), Children: []*unstructured.Unstructured{
				left("a", policy(v1alpha1.DeletionOrphan)),
			}},
			release: "a", progress: "0/0", wave: "0/0",
		},
		"Nothing is left behind where that is denied": {
			reason: "its author says so",
			remains: plan.Remaining{
				Instance: instance(annotated(v1alpha1.ForceDeleteAnnotation, "all"), annotated(v1alpha1.ForceAfterAnnotation, "1s")),
				Defaults: inventory.Defaults{Overrides: inventory.Overrides{ForceDelete: v1alpha1.OverrideDeny}},
				Children: []*unstructured.Unstructured{left("a", layer(0), held("x/y"))}, History: noticed, Now: now.Add(time.Hour),
			},
			blockers: []string{"ConfigMap prod/a: Finalizer: held by finalizer x/y"}, progress: "0/1", wave: "1/1",
		},
		"Orphan propagation releases all": {
			reason:  "the deletion requested it",
			remains: plan.Remaining{Policy: report.Orphan, Children: []*unstructured.Unstructured{left("a", layer(0)), left("b", layer(1))}},
			release: "a b", progress: "0/0", wave: "0/0",
		},
		"A blocker is left behind by the id of its node": {
			reason: "a user requested it",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.ForceDeleteAnnotation, "a")), Children: []*unstructured.Unstructured{
				left("a", layer(1), held("x/y")), left("b", layer(0)),
			}, History: noticed},
			del: "b", left: "a", progress: "0/2", wave: "1/1",
		},
		"A blocker is left behind by kind and name, and no other object": {
			reason: "only what is named is left behind",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.ForceDeleteAnnotation, "ConfigMap/a")), Children: []*unstructured.Unstructured{
				left("a", layer(0), held("x/y")), left("b", layer(0), held("x/y")),
			}, History: noticed},
			left: "a", blockers: []string{"ConfigMap prod/b: Finalizer: held by finalizer x/y"}, progress: "0/2", wave: "1/1",
		},
		"A named child that isn't blocked is deleted": {
			reason:  "letting go is for what doesn't go",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.ForceDeleteAnnotation, "all")), Children: []*unstructured.Unstructured{left("a", layer(0))}},
			del:     "a", progress: "0/1", wave: "1/1",
		},
		"An unreadable kind is left behind too": {
			reason:  "otherwise nothing would help",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.ForceDeleteAnnotation, "Bucket")), Unreadable: unreadable(plan.WaitingForKind)},
			left:    "", done: true, progress: "0/0", wave: "0/0",
		},
		"After forceAfter a blocker is left behind": {
			reason:  "the author has set a limit",
			remains: plan.Remaining{Defaults: inventory.Defaults{Limits: inventory.Limits{ForceAfter: time.Minute}}, Children: []*unstructured.Unstructured{left("a", layer(0), held("x/y"))}, History: noticed, Now: now.Add(time.Minute)},
			left:    "a", done: true, progress: "0/1", wave: "0/0",
		},
		"Before forceAfter the next step is scheduled": {
			reason: "nothing else would wake it",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.ForceAfterAnnotation, "1m")), Children: []*unstructured.Unstructured{
				left("a", layer(0), held("x/y")),
			}, History: noticed},
			blockers: []string{"ConfigMap prod/a: Finalizer: held by finalizer x/y"}, progress: "0/1", wave: "1/1", retry: time.Minute,
		},
		"After the timeout the deletion is stalled and continues": {
			reason: "a user should know, and the deletion goes on",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.DeletionTimeoutAnnotation, "1m")), Children: []*unstructured.Unstructured{
				left("a", layer(0)),
			}, Now: now.Add(2 * time.Minute)},
			del: "a", progress: "0/1", wave: "1/1", stalled: true,
		},
		"Nothing is counted as gone while the inventory is incomplete": {
			reason:  "there may be children of kinds that it doesn't name",
			remains: plan.Remaining{InventoryTampered: true}, wave: "0/0",
			blockers: []string{"Vpc prod/main: OutOfReach: its inventory was modified (applyset.kubernetes.io/contains-group-kinds), and its definition isn't available to complete it"},
		},
		"An orphan whose release is refused is left behind by name": {
			reason:  "the annotation is for any child that keeps the instance",
			remains: plan.Remaining{Instance: instance(annotated(v1alpha1.ForceDeleteAnnotation, "a")), Children: []*unstructured.Unstructured{left("a", policy(v1alpha1.DeletionOrphan))}, History: refused(1, now, left("a", policy(v1alpha1.DeletionOrphan)))},
			left:    "a", progress: "0/1", wave: "0/0", done: true,
		},
		"Foreign finalizers of the instance are reported with delay": {
			reason:  "the garbage collector takes off its finalizers by itself",
			remains: plan.Remaining{Instance: instance(held("x/y"))}, progress: "0/0", wave: "0/0", retry: 200 * time.Millisecond,
		},
		"Foreign finalizers of the instance are reported when all children are gone": {
			reason:   "no other controller reports them",
			remains:  plan.Remaining{Instance: instance(held("x/y")), History: noticed},
			blockers: []string{"Vpc prod/main: Finalizer: held by finalizer x/y"}, progress: "0/0", wave: "0/0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.remains.Now.IsZero() {
				tc.remains.Now = now
			}
			if tc.remains.Instance == nil {
				tc.remains.Instance = instance()
			}
			got := plan.Teardown(tc.remains)
			want := []any{tc.del, tc.release, tc.blockers, tc.left, tc.progress, tc.wave, tc.done, tc.retry, tc.stalled}
			d := got.Deletion
			is := []any{
				sorted(got.Delete), sorted(got.Release), texts(d.Blockers), nodes(d.LeftBehind), d.Progress,
				fmt.Sprintf("%d/%d", d.Wave, d.Waves), got.Done, got.Retry, got.Stalled,
			}
			if diff := cmp.Diff(want, is); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func sorted(objects []*unstructured.Unstructured) string {
	return strings.Join(slices.Sorted(slices.Values(names(objects))), " ")
}

func texts(blockers []report.Blocker) []string {
	var out []string
	for _, b := range blockers {
		text := fmt.Sprintf("%s: %s: %s", b.Object, b.Reason, b.Message)
		if b.Cause != nil {
			text += fmt.Sprintf(" [%s]", b.Cause.Object)
		}
		if b.RootCause().InProgress {
			text += " (in progress)"
		}
		out = append(out, text)
	}
	return out
}

func nodes(blockers []report.Blocker) string {
	var out []string
	for _, b := range blockers {
		out = append(out, b.Node)
	}
	return strings.Join(out, " ")
}
