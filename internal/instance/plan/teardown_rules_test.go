package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

func leafHold(name string, reason report.Reason, fs ...report.Finalizer) report.Blocker {
	return report.Blocker{Node: name, BlockedObject: report.BlockedObject{
		Object: report.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: name},
		Reason: reason, Message: "no", Since: report.At(long), Finalizers: fs,
	}}
}

// A restart, while the watches of the kinds start: nothing is known of the
// children, and the status must stay as it was.
func TestWhileChildrenAreReadTheStatusIsAsItWas(t *testing.T) {
	before := report.Deletion{StartedAt: report.At(now), Policy: report.Background, Total: 5, Removed: 1, Remaining: 4, Percent: 20, Progress: "1/5", Waves: 2, Wave: 1,
		Blocked: 1, Blockers: []report.Blocker{leafHold("a", report.HeldByFinalizer)}}
	got := plan.Teardown(plan.Remaining{
		Instance: instance(), Policy: report.Background, Now: now, Reported: report.Status{Deletion: &before},
		Unreadable: map[schema.GroupVersionKind]plan.Unreadable{configMap: {Problem: plan.Problem{Reason: plan.Syncing, Message: "reading"}}},
	}).Deletion
	if got.Progress != "1/5" || len(got.Blockers) != 1 {
		t.Errorf("nothing was looked at, and the status says %s, %d%%, %d blockers", got.Progress, got.Percent, len(got.Blockers))
	}
}

func TestBeforeChildrenAreReadNothingIsCounted(t *testing.T) {
	got := plan.Teardown(plan.Remaining{
		Instance: instance(), Policy: report.Background, Now: now,
		Unreadable: map[schema.GroupVersionKind]plan.Unreadable{configMap: {Problem: plan.Problem{Reason: plan.Syncing, Message: "reading"}}},
	}).Deletion
	if got.Percent == 100 {
		t.Errorf("what there is isn't known, and the status says %d%% of %d", got.Percent, got.Total)
	}
}

// After a restart the managers of a finalizer aren't known; the status has them.
func TestAfterARestartTheManagersOfFinalizersAreKnown(t *testing.T) {
	b := leafHold("a", report.HeldByFinalizer, report.Finalizer{Name: "example.com/guard", Managers: []string{"somebody"}})
	b.Message = "held by finalizer example.com/guard, added by somebody"
	before := report.Deletion{StartedAt: report.At(now), Policy: report.Background, Total: 1, Remaining: 1, Progress: "0/1", Waves: 1, Wave: 1, Blocked: 1, Blockers: []report.Blocker{b}}
	a := left("a", layer(0), held("example.com/guard"))
	// what notice() gives on the first pass after a restart: first seen now, no lookup yet
	got := plan.Teardown(plan.Remaining{
		Instance: instance(), Policy: report.Background, Now: now, Reported: report.Status{Deletion: &before}, Children: []*unstructured.Unstructured{a},
		History: trials(plan.DeletionAttempts{FirstSeen: now, ChangedAt: now, ResourceVersion: "1"}, "uid-a", "i-1"),
	})
	if said := got.Deletion.Blockers[0]; len(said.Finalizers[0].Managers) == 0 {
		t.Errorf("the status is rewritten as %q, and the next look is after %s (0: never)", said.Message, got.Retry)
	}
}

// After a restart what was refused is asked again; until the answer is there, the
// status must not say that nothing is in the way.
func TestAfterARestartARefusalIsReportedWhileTheRequestIsRepeated(t *testing.T) {
	for _, reason := range []report.Reason{report.DeniedByWebhook, report.WebhookUnavailable, report.Forbidden, report.OutOfReach} {
		reported := leafHold("a", reason)
		before := report.Deletion{StartedAt: report.At(now), Policy: report.Background, Total: 1, Remaining: 1, Progress: "0/1", Waves: 1, Wave: 1, Blocked: 1, Blockers: []report.Blocker{reported}}
		got := plan.Teardown(plan.Remaining{
			Instance: instance(), Policy: report.Background, Now: now, Reported: report.Status{Deletion: &before}, Children: []*unstructured.Unstructured{left("a", layer(0))},
		})
		if diff := cmp.Diff([]report.Blocker{reported}, got.Deletion.Blockers); diff != "" {
			t.Errorf("the blocker is removed from the status before the next request, and would be reported again, with an event (-want +got):\n%s", diff)
		}
	}
}

func TestLeftBehindIsBounded(t *testing.T) {
	var children []*unstructured.Unstructured
	noticed := map[types.UID]time.Time{}
	for i := range 4000 {
		c := left(fmt.Sprintf("child-of-a-collection-%04d", i), layer(0), held("example.com/guard-of-some-length"))
		children = append(children, c)
		noticed[c.GetUID()] = long
	}
	r := plan.Remaining{Instance: instance(annotated(v1alpha1.ForceDeleteAnnotation, "all")), Policy: report.Background, Now: now, Children: children, History: noticedAt(noticed)}
	got := plan.Teardown(r)
	text, _ := json.Marshal(got.Deletion)
	if len(text) > 1<<20 {
		t.Errorf("leftBehind has %d entries, the status %d bytes; etcd takes 1.5 MiB", len(got.Deletion.LeftBehind), len(text))
	}
}

// Somebody takes our finalizer off an instance that others keep: its children are
// there, and nobody has removed them.
func TestAnInstanceWithoutOurFinalizerIsTornDown(t *testing.T) {
	before := report.Deletion{StartedAt: report.At(now), Policy: report.Background, Total: 2, Remaining: 2, Progress: "0/2", Waves: 1, Wave: 1}
	got := plan.Teardown(plan.Remaining{
		Instance: instance(held("example.com/other")), Policy: report.Background, Now: now, Reported: report.Status{Deletion: &before},
		Children: []*unstructured.Unstructured{left("a", layer(0)), left("b", layer(0))},
		History:  trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: long, ResourceVersion: "1"}, "i-1"),
	}).Deletion
	if got.Removed != 0 {
		t.Errorf("two of two children are there, and the status says %s, %d%%", got.Progress, got.Percent)
	}
}

func TestSpacesInAPolicyAreIgnored(t *testing.T) {
	p, _ := inventory.PoliciesOf(instance(annotated(v1alpha1.DeletionPolicyAnnotation, "cache = Orphan")), inventory.Defaults{})
	if got := p.Of(left("db", layer(0))); got != v1alpha1.DeletionDelete {
		t.Errorf("%q says of every other node %s", "cache = Orphan", got)
	}
}

func TestNothingIsDeletedWhileAPolicyIsInvalid(t *testing.T) {
	r := plan.Remaining{
		Instance: instance(annotated(v1alpha1.DeletionPolicyAnnotation, "db=keep")), Policy: report.Background, Now: now,
		Children: []*unstructured.Unstructured{left("db", layer(0))},
	}
	if got := plan.Teardown(r); len(got.Delete) > 0 {
		t.Errorf("%s is deleted although an invalid policy names it", got.Delete[0].GetName())
	}
	if got := prune(r); len(got.Delete) > 0 || len(got.Objects) != 1 || got.Objects[0].Node != "db" || got.Objects[0].Reason != report.Protected {
		t.Errorf("it is pruned, or not reported: %+v", got)
	}
}

// The definition says Retain now, and leaves the node out, in one edit: the child
// carries what it said before.
func TestTheCurrentDefinitionRetainsObjectsOfSkippedNodes(t *testing.T) {
	node := wants("db", 0, "db")
	child := stored(node.Object, "db", 0)
	node.OnDelete, node.SkipMessage, node.Object = v1alpha1.DeletionRetain, "includeWhen is false", nil
	got := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{
		Instance: instance(func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(nil) }), Now: now,
		Owned: map[string][]*unstructured.Unstructured{"db": {child}},
	}, plan.History{}, owner, v1alpha1.ChildManager)
	if len(got.Prune) > 0 {
		t.Error("the definition says deletionPolicy: Retain, and the child is pruned, by Delete")
	}
}

func TestBlockersAreReportedBeforeObjectsInProgress(t *testing.T) {
	var children []*unstructured.Unstructured
	noticed := map[types.UID]time.Time{}
	for i := range 30 { // more than are reported
		c := left(fmt.Sprintf("a%d", i), layer(0))
		noticed[c.GetUID()] = long
		children = append(children, c)
	}
	blocked := left("z", layer(0), annotated(v1alpha1.ProtectAnnotation, "mine"))
	got := prune(plan.Remaining{Instance: instance(), Children: append(children, blocked), Now: now, History: noticedAt(noticed)})
	if got.Objects[0].Reason != report.Protected {
		t.Errorf("of %d objects the only blocked one isn't the first: %s", len(got.Objects), got.Objects[0].Reason)
	}
}

// Children of a version before this one carry their layer and no dependencies.
func TestChildrenWithoutDependenciesArePrunedByLayers(t *testing.T) {
	got := prune(plan.Remaining{Instance: instance(), Now: now, Children: []*unstructured.Unstructured{left("below", layer(0), unordered), left("above", layer(1), unordered)}})
	if len(got.Delete) != 1 {
		t.Errorf("%d are deleted side by side, though one was applied on top of the other", len(got.Delete))
	}
}

// What stands on something that stays in place stands on what that stands on.
func TestPruningKeepsTheOrderThroughRetainedObjects(t *testing.T) {
	above := left("above", inventory.Place{Layer: 2, DependsOn: []string{"middle"}})
	middle := left("middle", inventory.Place{Layer: 1, DependsOn: []string{"below"}, OnDelete: v1alpha1.DeletionOrphan})
	below := left("below", inventory.Place{Layer: 0})
	got := prune(plan.Remaining{Instance: instance(), Now: now, Children: []*unstructured.Unstructured{above, middle, below}})
	if len(got.Delete) != 1 {
		t.Errorf("%d are deleted side by side: what is at the top stands on what is at the bottom", len(got.Delete))
	}
}

func TestACauseIsTruncated(t *testing.T) {
	cause := deepCause()
	cause.Cause.Message = strings.Repeat("x", 1<<20)
	child := left("a", layer(0), nested(cause))
	got := plan.Teardown(plan.Remaining{Instance: instance(), Policy: report.Background, Now: now, Children: []*unstructured.Unstructured{child}})
	if text, _ := json.Marshal(got.Deletion); len(text) > 10_000 {
		t.Errorf("a child's status makes one of %d bytes, on every ancestor", len(text))
	}
}

func TestTheFinalizersOfABlockerAreBounded(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("example.com/%d-%s", i, strings.Repeat("x", 50)))
	}
	got := plan.Teardown(plan.Remaining{
		Instance: instance(), Policy: report.Background, Now: now, Children: []*unstructured.Unstructured{left("a", layer(0), held(names...))},
		History: trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: long, ResourceVersion: "1"}, "uid-a"),
	})
	if len(got.Deletion.Blockers) != 1 {
		t.Fatalf("want one blocker, got %+v", got.Deletion.Blockers)
	}
	if b := got.Deletion.Blockers[0]; len(b.Finalizers) != 10 || len(b.Message) > 512 || !strings.Contains(b.Message, "example.com/0-") {
		t.Errorf("%d finalizers, and a message of %d bytes: %s", len(b.Finalizers), len(b.Message), b.Message)
	}
}

// A foreign kind has a status.deletion of its own.
func TestAForeignStatusDoesNotHideFinalizers(t *testing.T) {
	child := left("a", layer(0), held("example.com/guard"))
	child.Object["status"] = map[string]any{"deletion": map[string]any{"startedAt": "2026-08-01T10:00:00Z", "phase": "Draining"}}
	got := plan.Teardown(plan.Remaining{
		Instance: instance(), Policy: report.Background, Now: now, Children: []*unstructured.Unstructured{child},
		History: trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: long, ResourceVersion: "1"}, "uid-a"),
	})
	if len(got.Deletion.Blockers) == 0 && got.Retry == 0 {
		t.Error("a finalizer blocks a child for an hour, and is never reported")
	}
}

// Our finalizer was just removed.
func TestTheGarbageCollectorIsReportedWithDelay(t *testing.T) {
	got := plan.Teardown(plan.Remaining{
		Instance: instance(held("foregroundDeletion")), Policy: report.Background, Now: now.Add(time.Second),
		History: trials(plan.DeletionAttempts{FirstSeen: now}, "i-1"),
	})
	if len(got.Deletion.Blockers) > 0 || got.Retry != 4*time.Second {
		t.Errorf("reported as a blocker before the delay for the garbage collector: %+v", got.Deletion.Blockers)
	}
}

// A deletion that was answered with success, or 404 or 409, of an object that
// doesn't go.
func TestAnAcceptedRequestWithoutEffectIsReported(t *testing.T) {
	got := plan.Teardown(plan.Remaining{
		Instance: instance(), Policy: report.Background, Now: now.Add(24 * time.Hour), Children: []*unstructured.Unstructured{left("a", layer(0))},
		History: trials(plan.DeletionAttempts{}.Accepted(now), "uid-a"),
	})
	if len(got.Delete) == 0 && len(got.Deletion.Blockers) == 0 && got.Retry == 0 {
		t.Error("the deletion of a child was accepted a day ago and isn't observed: it is neither requested again nor reported nor retried")
	}
}

// A Pod of a node that is lost, or with an hour of grace, has no finalizers.
func TestASlowDeletionIsReported(t *testing.T) {
	got := plan.Teardown(plan.Remaining{
		Instance: instance(), Policy: report.Background, Now: now.Add(24 * time.Hour), Children: []*unstructured.Unstructured{left("a", layer(0), dying)},
		History: trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: long, ResourceVersion: "1"}, "uid-a"),
	})
	if len(got.Deletion.Blockers) == 0 && got.Retry == 0 {
		t.Error("a child has been going for a day; the status says nothing of it, and never will")
	}
}

func TestTheFirstRefusedReleasesAreReported(t *testing.T) {
	var children []*unstructured.Unstructured
	tried := plan.DeletionHistory{Children: map[types.UID]plan.DeletionAttempts{}}
	for i := range 500 {
		c := left(fmt.Sprintf("c%03d", i), inventory.Place{OnDelete: v1alpha1.DeletionOrphan})
		children = append(children, c)
		tried.Children[c.GetUID()] = plan.DeletionAttempts{}.Refused(report.DeniedByWebhook, "no", c, now)
	}
	got := prune(plan.Remaining{Instance: instance(), Now: now, Children: children, History: tried})
	if len(got.Objects) > 20 {
		t.Errorf("status.pruning gets %d entries", len(got.Objects))
	}
}

// Somebody annotates one instance to retain its children, deletes it, and makes it
// anew with the node left out: the object was to be retained.
func TestAnObjectThatAnAnnotationRetainedIsNotPruned(t *testing.T) {
	child := left("db", layer(0))
	gone := plan.Teardown(plan.Remaining{Instance: instance(annotated(v1alpha1.DeletionPolicyAnnotation, "Retain")), Policy: report.Background, Now: now, Children: []*unstructured.Unstructured{child}})
	if gone.Done || len(gone.Delete) > 0 || len(gone.Retain) != 1 {
		t.Fatal("it isn't marked to be retained before the instance goes")
	}
	annotated(v1alpha1.RetainedFromAnnotation, "i-1")(child)
	node := wants("db", 0, "db")
	node.SkipMessage, node.Object = "includeWhen is false", nil
	next := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{
		Instance: instance(func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(nil); o.SetUID("i-2") }), Now: now,
		Owned: map[string][]*unstructured.Unstructured{"db": {child}},
	}, plan.History{}, owner, v1alpha1.ChildManager)
	if len(next.Prune) > 0 {
		t.Error("the newcomer, which never made it, deletes what was retained")
	}
}

// A child whose webhook annotates each refusal on it, or that changes constantly.
func TestARefusedChildThatChangesIsNotHotLooped(t *testing.T) {
	asks := 0
	child := left("a", layer(0))
	tried := plan.DeletionHistory{Children: map[types.UID]plan.DeletionAttempts{}}
	for i := range 100 { // ten seconds
		at := now.Add(time.Duration(i) * 100 * time.Millisecond)
		child.SetResourceVersion(fmt.Sprint(i + 1))
		annotated("webhook.example.com/refused", fmt.Sprint(i))(child)
		got := plan.Teardown(plan.Remaining{Instance: instance(), Policy: report.Background, Now: at, Children: []*unstructured.Unstructured{child}, History: tried})
		if len(got.Delete) > 0 {
			asks++
			tried.Children["uid-a"] = tried.Children["uid-a"].Refused(report.DeniedByWebhook, "no", child, at)
		}
	}
	if asks > 20 {
		t.Errorf("asked %d times in ten seconds, with growing delay", asks)
	}
}

func BenchmarkTeardownOf5000(b *testing.B) {
	var children []*unstructured.Unstructured
	for i := range 5000 {
		children = append(children, left(fmt.Sprintf("c%04d", i), inventory.Place{Layer: i % 3}))
	}
	for b.Loop() {
		plan.Teardown(plan.Remaining{Instance: instance(), Policy: report.Background, Now: now, Children: children})
	}
}

// A nested instance began to be taken apart; then whoever serves its kind went
// away for good.
func TestANestedInstanceWithoutControllerIsReported(t *testing.T) {
	got := plan.Teardown(plan.Remaining{
		Instance: instance(), Policy: report.Background, Now: now.Add(24 * time.Hour), Children: []*unstructured.Unstructured{left("a", layer(0), nested())},
		History: trials(plan.DeletionAttempts{FirstSeen: long, ChangedAt: long, ResourceVersion: "1"}, "uid-a"),
	})
	if len(got.Deletion.Blockers) == 0 && got.Retry == 0 {
		t.Error("a child has been going for a day; the status says nothing of it, and never will")
	}
}

// Ten minutes are for the whole; the second wave was asked to go 300 ms ago, and
// its provider is at work.
func TestForceAfterCountsFromWhenSomethingBlocks(t *testing.T) {
	at := now.Add(time.Hour)
	child := left("vpc", layer(0), held("finalizer.managedresource.crossplane.io"), func(o *unstructured.Unstructured) {
		o.SetDeletionTimestamp(&metav1.Time{Time: at})
	})
	got := plan.Teardown(plan.Remaining{
		Instance: instance(annotated(v1alpha1.ForceAfterAnnotation, "10m")), Policy: report.Background, Now: at.Add(300 * time.Millisecond), Children: []*unstructured.Unstructured{child},
		History: trials(plan.DeletionAttempts{FirstSeen: at, ChangedAt: at, ResourceVersion: "1"}, "uid-vpc"),
	})
	if got.Done {
		t.Errorf("left behind 0.3s after it was asked to go: %+v", got.Deletion.LeftBehind)
	}
}

func TestDeletionMessage(t *testing.T) {
	blocked, waiting := leafHold("a", report.HeldByFinalizer), leafHold("b", report.OutOfReach)
	waiting.InProgress = true
	var invalid diag.List
	invalid.Addf("metadata.annotations", "it has no unit")
	for name, tc := range map[string]struct {
		reason  string
		removal plan.Removal
		want    string
	}{
		"Nothing was counted": {"there may be any number", plan.Removal{}, "its resources are being deleted, in reverse order"},
		"Some are gone":       {"it goes on", plan.Removal{Deletion: report.Deletion{Total: 3, Removed: 1}}, "its resources are being deleted, in reverse order: 1 of 3 are gone"},
		"All are orphaned":    {"none of them is deleted", plan.Removal{Deletion: report.Deletion{Policy: report.Orphan, Total: 3}}, "its resources are left in place, without its labels"},
		"Some keep it": {
			"a user can act on the former only", plan.Removal{Deletion: report.Deletion{Blocked: 2, Blockers: []report.Blocker{waiting, blocked}}},
			"its resources are being deleted, in reverse order; blocked by ConfigMap prod/a: Finalizer: no; waiting for ConfigMap prod/b: OutOfReach: no",
		},
		"The policy is invalid": {
			"a user must correct it", plan.Removal{Problem: invalid},
			"its resources are being deleted, in reverse order; metadata.annotations: it has no unit",
		},
	} {
		if diff := cmp.Diff(tc.want, plan.DeletionMessage(tc.removal)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.reason, diff)
		}
	}
}

func TestInvalidDeletionSettingsAreReported(t *testing.T) {
	got := plan.Teardown(plan.Remaining{Instance: instance(annotated(v1alpha1.DeletionTimeoutAnnotation, "soon")), Now: now, Children: []*unstructured.Unstructured{left("a", layer(0))}})
	if err := got.Problem.Err(); err == nil || !strings.Contains(err.Error(), v1alpha1.DeletionTimeoutAnnotation) || len(got.Delete) != 1 {
		t.Errorf("the deletion goes on without the limit, and a user must correct it: %v, %d deleted", err, len(got.Delete))
	}
}

func TestReleaseReason(t *testing.T) {
	denied := inventory.Overrides{ForceDelete: v1alpha1.OverrideDeny}
	named := annotated(v1alpha1.ForceDeleteAnnotation, "b a")
	after := annotated(v1alpha1.ForceAfterAnnotation, "1m")
	for name, tc := range map[string]struct {
		reason    string
		instance  *unstructured.Unstructured
		overrides inventory.Overrides
		want      string
	}{
		"Without annotations":                      {"the definition has a limit", instance(), inventory.Overrides{}, ""},
		"The annotation names it":                  {"the user requested it", instance(named), inventory.Overrides{}, v1alpha1.ForceDeleteAnnotation},
		"The annotation names others":              {"the definition has a limit", instance(annotated(v1alpha1.ForceDeleteAnnotation, "b")), inventory.Overrides{}, ""},
		"The annotation sets a limit":              {"the user requested it", instance(after), inventory.Overrides{}, v1alpha1.ForceAfterAnnotation},
		"One annotation names it, one has a limit": {"the former doesn't wait for the latter", instance(named, after), inventory.Overrides{}, v1alpha1.ForceDeleteAnnotation},
		"Annotations that are denied":              {"they don't apply", instance(named, after), denied, ""},
	} {
		if got := plan.ReleaseReason(tc.instance, tc.overrides, leafHold("a", report.HeldByFinalizer)); got != tc.want {
			t.Errorf("%s: %s: %q, not %q", name, tc.reason, got, tc.want)
		}
	}
}
