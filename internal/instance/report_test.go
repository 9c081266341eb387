package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestTheStatusIsWrittenOnlyIfItSaysSomethingNew(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.pass(time.Hour)
	f.reconcile()
	f.wantCalls()
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) { d.Status["id"] = "vpc-1" }
	f.reconcile()
	f.wantCalls("status Web shop")
	f.reconcile()
	f.wantCalls()
	f.memories = memories{} // a restart
	f.reconcile()
	f.wantCalls()
}

func TestAStatusThatCannotBeWritten(t *testing.T) {
	cases := map[string]struct {
		err    error
		failed bool
		event  string
	}{
		"A stale write waits for its event":            {apierrors.NewConflict(webs, "shop", errors.New("changed")), false, ""},
		"A transient failure is retried":               {apierrors.NewTooManyRequests("later", 1), true, ""},
		"A permanent failure is recorded as an event":  {invalid("spec.x: hunter2 is wrong"), true, "Warning FailedStatusUpdate: the status is outdated"},
		"A webhook's conflict is recorded as an event": {refusedByWebhook(named(webKind, "prod", "shop")), true, "Warning FailedStatusUpdate"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, configMap("a"))
			f.fail["status Web shop"] = tc.err
			out := f.reconcile()
			if (out.Err != nil) != tc.failed || out.Err == nil && out.RequeueAfter == 0 {
				t.Errorf("got %+v", out)
			}
			if tc.event == "" && len(f.events) > 0 {
				t.Errorf("events: %q", f.events)
			}
			if tc.event != "" {
				f.wantEvent(tc.event)
			}
			if strings.Contains(strings.Join(f.events, " "), "hunter2") {
				t.Errorf("an event quotes what was sent: %q", f.events)
			}
			f.reconcile()
			if len(f.events) > 0 {
				t.Errorf("recorded again: %q", f.events)
			}
		})
	}
}

func TestAStatusThatIsTooLargeIsReported(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) { d.Status["id"] = "vpc-1" }
	f.reconcile()
	f.maxStatus = 10 << 10
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) { d.Status["id"] = strings.Repeat("x", 20<<10) }
	if out := f.reconcile(); out.Err != nil || out.RequeueAfter != time.Minute {
		t.Errorf("got %+v", out)
	}
	f.wantCondition(v1alpha1.InstanceReady, "False Rejected: the desired status has 20 KiB, more than the API server stores; the fields of the status are outdated")
	if id, _, _ := unstructured.NestedString(f.shop().Object, "status", "id"); id != "vpc-1" {
		t.Errorf("the field that was stored has the value %.10q", id)
	}
	f.wantEvent("the desired status has 20 KiB")
	f.reconcile()
	f.wantCalls("status Web shop") // the large one
	if len(f.events) > 0 {
		t.Errorf("recorded again: %q", f.events)
	}
	f.nodes.adjust = nil
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "True")
}

func TestAStatusThatIsStoredWithoutFieldsIsWrittenAgainLater(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) { d.Status["unknown"] = "pruned by the schema" }
	f.answer = func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "status", "unknown") }
	f.statusRecheck = time.Second
	if out := f.reconcile(); out.RequeueAfter != time.Second {
		t.Errorf("got %+v", out)
	}
	f.statusRecheck = 0
	if out := f.reconcile(); out.RequeueAfter != 0 {
		t.Errorf("the schema is known to lack the field: got %+v", out)
	}
}

func TestAProblemIsAnEventOnceAndSoIsItsEnd(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.nodes.wanted[0].Object.Object["data"] = map[string]any{"a": "c"}
	f.fail["update ConfigMap a"] = invalid("no")
	f.reconcile()
	f.wantEvent("Warning Rejected")
	f.reconcile()
	if len(f.events) > 0 {
		t.Errorf("recorded again: %q", f.events)
	}
	f.fail = nil
	f.reconcile()
	f.wantEvent("Normal Ready: all resources exist and are ready again")
}

func TestAuthorsResultsAreEventsOnceForAsLongAsTheyLast(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	say := func(d *plan.Desired, _ plan.Facts) {
		d.Results = []plan.Result{{Reason: "Sized", Message: "three nodes"}, {Warning: true, Reason: "Old", Message: "it is old", Claim: true}}
	}
	f.nodes.adjust = say
	f.reconcile()
	f.wantEvent("Normal Sized: three nodes")
	f.wantEvent("Warning Old: it is old")
	f.reconcile()
	if len(f.events) > 0 {
		t.Errorf("recorded again: %q", f.events)
	}
	f.nodes.adjust = nil
	f.reconcile()
	f.nodes.adjust = say
	f.reconcile()
	f.wantEvent("Normal Sized: three nodes")
}

func TestAfterARestartResultsThatLastAreNoEvents(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
		d.Results = []plan.Result{{Reason: "Sized", Message: "three nodes"}}
	}
	f.reconcile()
	f.memories = memories{}
	f.reconcile()
	if len(f.events) > 0 {
		t.Errorf("events: %q", f.events)
	}
}

func TestResultsForAClaimsUsersAreEventsOfTheClaimToo(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.Definition.Dialect = object.CompositeDialect
	f.put(named(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "WebClaim"}, "prod", "mine"))
	f.change(shop, func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedMap(o.Object, map[string]any{"apiVersion": "example.org/v1", "kind": "WebClaim", "namespace": "prod", "name": "mine"}, "spec", "claimRef")
	})
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
		d.Results = []plan.Result{{Reason: "Sized", Message: "three nodes", Claim: true}}
	}
	f.reconcile()
	events := slices.DeleteFunc(f.events, func(e string) bool { return e != "Normal Sized: three nodes" })
	if len(events) != 2 {
		t.Errorf("%d events, want one of the composite and one of its claim", len(events))
	}
}

func TestAuthorsConditionsReplaceTheDialects(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	said := plan.AuthorConditions{Conditions: []v1alpha1.Condition{{Type: "Healthy", Status: condition.True, Reason: "Fine"}}, Types: []string{"Healthy"}}
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
		d.AuthorConditions = func(condition.Set) plan.AuthorConditions { return said }
	}
	f.reconcile()
	f.wantCondition("Healthy", "True Fine")
	if _, there := condition.Read(f.shop()).Get(v1alpha1.InstanceReady); there {
		t.Error("the dialect's own condition is there")
	}
	said = plan.AuthorConditions{Problems: []string{"Healthy: division by zero"}, Partial: true, Types: []string{"Healthy"}}
	f.reconcile()
	f.wantCondition("Healthy", "True Fine")
	f.wantEvent("Warning ConditionFailed: Healthy: division by zero")
	if got, _, _ := unstructured.NestedString(f.shop().Object, "status", "state"); got != string(v1alpha1.InstanceError) {
		t.Errorf("state %q", got)
	}
}

// TestProgressChangesWithReady has a refused child that is then accepted: Stalled comes and goes in the writes that change Ready,
// and a reconcile that finds the same writes nothing and records nothing.
func TestProgressChangesWithReady(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	types := func() []string {
		var out []string
		for _, c := range condition.Read(f.shop()) {
			if c.Type == condition.TypeReconciling || c.Type == condition.TypeStalled {
				ready, _ := condition.Read(f.shop()).Get("Ready")
				if ready.Status == condition.True || c.Reason != ready.Reason || c.Message != ready.Message {
					t.Errorf("%v beside %v", c, ready)
				}
				out = append(out, c.Type)
			}
		}
		return out
	}
	if got := types(); got != nil {
		t.Errorf("a ready instance has %v", got)
	}
	f.nodes.wanted[0].Object.Object["data"] = map[string]any{"a": "c"}
	f.fail["update ConfigMap a"] = invalid("no")
	f.reconcile()
	if got := types(); !slices.Equal(got, []string{"Stalled"}) {
		t.Errorf("a refused child: %v", got)
	}
	f.wantCalls("update ConfigMap a", "status Web shop")
	f.wantEvent("Warning Rejected")
	for range 3 {
		f.reconcile()
		if slices.Contains(f.calls, "status Web shop") || len(f.events) > 0 {
			t.Errorf("nothing has changed, and there are %q and %q", f.calls, f.events)
		}
		f.calls = nil
	}
	f.fail = nil
	f.reconcile()
	if got := types(); got != nil {
		t.Errorf("the instance is ready again, and has %v", got)
	}
	f.wantCalls("update ConfigMap a", "status Web shop")
}

func TestAFormerStatusIsNotWrittenForItsGenerationAlone(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.change(shop, func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "status", "observedGeneration")
	})
	f.memories = memories{} // a restart
	f.reconcile()
	f.wantCalls()
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) { d.Status["id"] = "vpc-1" }
	f.reconcile()
	f.wantCalls("status Web shop")
	if observed, _, _ := unstructured.NestedInt64(f.shop().Object, "status", "observedGeneration"); observed != f.shop().GetGeneration() {
		t.Errorf("the status is of generation %d, not %d", observed, f.shop().GetGeneration())
	}
}

func TestAnInstanceIsReconciledWhenItsConditionsOrObjectsChangeWithTime(t *testing.T) {
	for _, tc := range []struct{ conditions, rest, want time.Duration }{
		{0, 0, 0}, {time.Hour, 0, time.Hour}, {0, time.Hour, time.Hour}, {time.Minute, time.Hour, time.Minute}, {time.Hour, time.Minute, time.Minute},
	} {
		f := newReconciled(t, configMap("a"))
		f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
			d.RequeueAfter = tc.rest
			d.AuthorConditions = func(condition.Set) plan.AuthorConditions { return plan.AuthorConditions{RequeueAfter: tc.conditions} }
		}
		f.reconcile()
		if out := f.reconcile(); out.RequeueAfter != tc.want {
			t.Errorf("%+v: the next reconcile is in %s", tc, out.RequeueAfter)
		}
	}
}
