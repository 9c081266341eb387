package sweep

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// The budgets of the design, in writes: an instance with five children in three
// layers is made in one pass.
func TestFiveChildrenInThreeLayersCostOnePass(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	counter := testkit.NewCrash(0)
	stop := run(t, counter.Wrap(config))
	defer stop()
	define(t, w)
	ns := testkit.Namespace(t, config)
	apply("apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: warm, namespace: $NS}\nspec: {value: one}\n")(t, w, ns)
	w.AwaitReady(t, kind("Chain"), ns, "warm")

	steps := []struct {
		name   string
		act    func(*testing.T, *testkit.World, string)
		done   func(*testing.T, *testkit.World, string)
		writes int
	}{
		{"created: claim, five children, status", apply(chain), ready(kind("Chain"), "one"), 7},
		{"updated: five children, status", apply(changed), ready(kind("Chain"), "two"), 6},
		{
			"deleted: status, five children, finalizer",
			func(t *testing.T, w *testkit.World, ns string) { w.Delete(t, kind("Chain"), ns, "x") }, gone(kind("Chain")), 7,
		},
	}
	for _, step := range steps {
		before := counter.Writes()
		step.act(t, w, ns)
		step.done(t, w, ns)
		if got := counter.Writes() - before; got != step.writes {
			t.Errorf("%s: %d writes, not %d", step.name, got, step.writes)
		}
	}
}
