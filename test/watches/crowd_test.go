package watches

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestSweepACrowdHoldsUpNobody makes many instances of one kind while the
// controllers are away. When they are back, with all of that before them, the
// first instances of another kind are made.
func TestSweepACrowdHoldsUpNobody(t *testing.T) {
	config := ownPlane(t).Config()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	const ns = "default"
	crowd, other := &plain{client, testkit.Group(t), ns, "Crowd"}, &plain{client, testkit.Group(t), ns, "Other"}
	c := run(t, config)
	for _, p := range []*plain{crowd, other} {
		must(t, "a definition", p.born(ctx, t))
	}
	c.stop()

	names := make([]string, testkit.Size(400, 10_000))
	for i := range names {
		names[i] = fmt.Sprintf("c%05d", i)
	}
	at := place{group: crowd.group, ns: ns}
	if err := side(names, func(name string) error {
		return at.apply(ctx, t, crowd.objects(), crowd.instance(name))
	}); err != nil {
		t.Fatal(err)
	}

	c = run(t, config)
	other.firsts(t)
	behind := 0
	list, err := crowd.objects().List(ctx, metav1.ListOptions{})
	must(t, "the crowd", err)
	for i := range list.Items {
		if testkit.IsReady(&list.Items[i]) != nil {
			behind++
		}
	}
	if behind == 0 {
		t.Errorf("%d of another kind were all reconciled before the first five of this kind", len(names))
	}
	if err := c.until(ctx, func() error {
		last, err := crowd.objects().Get(ctx, names[len(names)-1], metav1.GetOptions{})
		if err != nil {
			return err
		}
		return testkit.IsReady(last)
	}); err != nil {
		t.Fatal(err)
	}
	testkit.Say(t, "churn: %d of %d of another kind still wait when five instances are ready", behind, len(names))
}

// firsts makes some instances, one after the other, and waits until each is ready.
func (p *plain) firsts(t *testing.T) {
	t.Helper()
	at := place{group: p.group, ns: p.ns}
	for i := range 5 {
		name := fmt.Sprint("first-", i)
		must(t, "an instance", at.apply(t.Context(), t, p.objects(), p.instance(name)))
		must(t, name, await(t.Context(), p.objects(), name, testkit.IsReady))
	}
}
