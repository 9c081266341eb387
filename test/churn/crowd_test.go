package churn

import (
	"fmt"
	"testing"
	"time"

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
		if err := p.born(ctx, t); err != nil {
			t.Fatal(err)
		}
	}
	alone := other.firsts(t, "alone")
	c.stop()

	names := make([]string, testkit.Size(1000, 10_000))
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
	began := time.Now()
	beside := other.firsts(t, "beside")
	here := time.Since(began)
	if err := c.until(ctx, func() error {
		last, err := crowd.objects().Get(ctx, names[len(names)-1], metav1.GetOptions{})
		if err != nil {
			return err
		}
		return testkit.IsReady(last)
	}); err != nil {
		t.Fatal(err)
	}
	all := time.Since(began)
	testkit.Say(t, "churn: an instance is ready after %s; beside %d of another kind that wait to be looked at, of which the last took %.1f s, after %s",
		short(alone), len(names), all.Seconds(), short(beside))
	if here > all/2 {
		t.Fatalf("the crowd was through too soon to be in anybody's way: %s of %s; make it larger", here, all)
	}
	if beside > 20*alone+time.Second {
		t.Errorf("an instance waited for %s beside a crowd, and %s alone", beside, alone)
	}
}

// firsts makes some instances, one after the other, and returns how long the
// slowest took to be ready.
func (p *plain) firsts(t *testing.T, prefix string) (slowest time.Duration) {
	t.Helper()
	at := place{group: p.group, ns: p.ns}
	for i := range 5 {
		name := fmt.Sprint(prefix, "-", i)
		began := time.Now()
		if err := at.apply(t.Context(), t, p.objects(), p.instance(name)); err != nil {
			t.Fatal(err)
		}
		if err := await(t.Context(), p.objects(), name, testkit.IsReady); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
	}
	return slowest
}
