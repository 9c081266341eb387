package instance

import (
	"strconv"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestAReconcileContinuesWhileAnswersResolveMore(t *testing.T) {
	f := newFixture(t, configMap("a"), configMap("b", "a"), configMap("c", "b"))
	f.reconcile()
	f.wantCalls("update Web shop", "create ConfigMap a", "create ConfigMap b", "create ConfigMap c", "status Web shop")
	f.wantCondition(v1alpha1.InstanceReady, "True")
}

func TestWhatOthersChangeDuringAReconcileDoesNotMakeItUnready(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	rounds := f.nodes.Depth() + 1
	f.nodes.adjust = func(d *plan.Desired, facts plan.Facts) {
		wanted := d.Nodes[0].Object.DeepCopy()
		wanted.Object["data"] = map[string]any{"a": strconv.Itoa(min(facts.Round, rounds))}
		d.Nodes[0].Object = wanted
	}
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "True")
}

func TestAComposerWhoseAnswerAlwaysChangesIsNotHotLooped(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	composed := 0
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) { composed++; d.Unsettled = true }
	f.nodes.wanted = append(f.nodes.wanted, configMap("b"), configMap("c"), configMap("d"))
	f.reconcile()
	composed = 0
	first := f.reconcile().RequeueAfter
	second := f.reconcile().RequeueAfter
	if composed != 2*maxIdleRounds || second != 2*first {
		t.Errorf("composed %d times, then after %s and %s", composed, first, second)
	}
	f.nodes.adjust = nil
	if out := f.reconcile(); out.RequeueAfter != 0 {
		t.Errorf("it is repeated in %s", out.RequeueAfter)
	}
}

func TestAComposerWhoseObjectsAlwaysChangeIsNotHotLooped(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	composed := 0
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
		composed++
		o := d.Nodes[0].Object.DeepCopy()
		o.Object["data"] = map[string]any{"a": strconv.Itoa(composed)}
		d.Nodes[0].Object = o
	}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if out := f.reconcile(); out.RequeueAfter != want {
			t.Errorf("it is repeated in %s, want %s", out.RequeueAfter, want)
		}
	}
	f.nodes.adjust = nil
	if out := f.reconcile(); out.RequeueAfter != 0 {
		t.Errorf("once the answer is stable, it is repeated in %s", out.RequeueAfter)
	}
}
