package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// shrunk is a fixture that wants c only, and has a and b as well; b depends on a.
func shrunk(t *testing.T) *fixture {
	f := newReconciled(t, configMap("a"), configMap("b", "a"), configMap("c"))
	f.nodes.wanted = []plan.Node{configMap("c")}
	return f
}

func (f *fixture) keep(name string) {
	f.change(keyOf(name), func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"other/keeps"}) })
}

func (f *fixture) pruning() []string {
	var out []string
	for _, b := range report.ReadPruning(f.shop()) {
		out = append(out, b.Object.Name+" "+string(b.Reason))
	}
	return out
}

func TestUndesiredObjectsAreDeletedInReverseOrder(t *testing.T) {
	f := shrunk(t)
	f.reconcile()
	f.wantCalls("delete ConfigMap b")
	f.reconcile()
	f.wantCalls("delete ConfigMap a")
	f.reconcile()
	f.wantCalls()
	f.wantCondition(v1alpha1.InstanceReady, "True")
}

func TestADeletionIsOfTheIncarnationThatWasRead(t *testing.T) {
	f := shrunk(t)
	read := f.objects[keyOf("b")]
	other := read.DeepCopy()
	other.SetUID("another")
	f.Lease = func(watch.Subscriber) Lease { return stale{fakeCache{f.fake}, read} }
	f.put(other)
	f.reconcile()
	f.wantCalls("delete ConfigMap b", "status Web shop")
	if f.objects[keyOf("b")] == nil {
		t.Error("another incarnation is deleted")
	}
}

// stale is a cache that has not seen yet that an object was replaced.
type stale struct {
	fakeCache
	was *unstructured.Unstructured
}

func (s stale) Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, watch.State) {
	found, state := s.fakeCache.Children(kind, owner)
	for i, o := range found {
		if object.KeyOf(o) == object.KeyOf(s.was) {
			found[i] = s.was
		}
	}
	return found, state
}

func TestNothingIsPrunedWhileSomethingIsUnresolved(t *testing.T) {
	for name, given := range map[string]func(*fixture){
		"A write failed": func(f *fixture) { f.fail["create ConfigMap d"] = errors.New("no") },
		"A node waits": func(f *fixture) {
			f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
				d.Nodes[1].Waits = []plan.Wait{{Node: "d", Reason: plan.WaitingForField, On: "x.status.y"}}
			}
		},
		"The desired state is unknown": func(f *fixture) {
			f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
				d.Problem = plan.Problem{Reason: plan.CompositionMissing, Message: "none"}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := shrunk(t)
			f.nodes.wanted = append(f.nodes.wanted, configMap("d"))
			given(f)
			f.reconcile()
			for _, call := range f.calls {
				if strings.HasPrefix(call, "delete") {
					t.Errorf("request: %s", call)
				}
			}
		})
	}
}

func TestASlowDeletionIsReportedUntilTheObjectIsGone(t *testing.T) {
	f := shrunk(t)
	f.keep("b")
	f.reconcile()
	f.wantCalls("delete ConfigMap b")
	out := f.reconcile()
	f.wantCalls()
	f.pass(out.RequeueAfter)
	f.reconcile()
	f.wantCalls("get ConfigMap b", "status Web shop")
	f.wantEvent("Warning PruneBlocked: ConfigMap prod/b: Finalizer: held by finalizer other/keeps")
	f.reconcile()
	if len(f.events) > 0 {
		t.Errorf("recorded again: %q", f.events)
	}
	if got := f.pruning(); !slices.Contains(got, "b Finalizer") {
		t.Errorf("status.pruning: %q", got)
	}
	delete(f.objects, keyOf("b"))
	f.reconcile()
	if slices.Contains(f.pruning(), "b Finalizer") {
		t.Error("the status still has a deleted object")
	}
}

func TestAnObjectThatIsDesiredAgainIsNotReportedAsPruned(t *testing.T) {
	f := shrunk(t)
	f.fail["delete ConfigMap b"] = errors.New("no")
	f.reconcile()
	f.pass(time.Second)
	f.reconcile()
	if got := f.pruning(); !slices.Contains(got, "b DeniedByWebhook") {
		t.Errorf("status.pruning: %q", got)
	}
	f.nodes.wanted = []plan.Node{configMap("a"), configMap("b", "a"), configMap("c")}
	f.reconcile()
	if got := f.pruning(); got != nil {
		t.Errorf("status.pruning: %q", got)
	}
}

func TestARefusalIsReportedWithItsReasonAndRetriedLater(t *testing.T) {
	f := shrunk(t)
	f.fail["delete ConfigMap b"] = errors.New("no deletions today")
	f.why = kube.ReasonForbidden
	out := f.reconcile()
	f.wantCalls("delete ConfigMap b", "status Web shop")
	f.wantEvent("Warning PruneBlocked: ConfigMap prod/b: Forbidden: no deletions today")
	if out.RequeueAfter == 0 {
		t.Error("it isn't asked for again")
	}
	f.fail = nil
	f.pass(time.Second)
	f.reconcile()
	if !slices.Contains(f.calls, "delete ConfigMap b") {
		t.Errorf("requests: %q", f.calls)
	}
}

func TestAnObjectInUseIsNotPruned(t *testing.T) {
	f := shrunk(t)
	f.uses = map[object.Key][]usage.Usage{keyOf("b"): {{Key: object.Key{Kind: "Usage", Name: "u"}, UID: "u", Reason: "the shop is open"}}}
	f.reconcile()
	f.wantCalls("status Web shop")
	f.wantEvent("in use: the shop is open")
	f.uses = nil
	f.reconcile()
	f.wantCalls("delete ConfigMap b", "status Web shop")
}

func TestNothingIsPrunedBeforeUsagesAreKnown(t *testing.T) {
	f := shrunk(t)
	f.unreadable = &plan.Unreadable{Problem: plan.Problem{Reason: plan.Syncing}}
	f.reconcile()
	f.wantCalls()
}

func TestAnOrphanedObjectIsReleased(t *testing.T) {
	f := shrunk(t)
	f.change(shop, func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		annotations[v1alpha1.DeletionPolicyAnnotation] = "b=Orphan"
		o.SetAnnotations(annotations)
	})
	f.reconcile()
	slices.Sort(f.calls) // they are made side by side
	f.wantCalls("change ConfigMap b", "delete ConfigMap a")
	f.wantEvent("Normal Orphaned: left in place without the labels of this instance: ConfigMap prod/b")
	if got := f.objects[keyOf("b")].GetLabels(); len(got) > 0 {
		t.Errorf("labels: %v", got)
	}

	t.Log("it isn't remembered as a child")
	f.reconcile()
	f.nodes.wanted = append(f.nodes.wanted, configMap("b"))
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceResourcesReady, "NotOwned")
}
