package watches

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestSweepManyInstancesDelayNoOtherKind creates many instances of one kind while the controllers are
// stopped. When they run again, with all of those instances queued, it creates the first instances of
// another kind.
func TestSweepManyInstancesDelayNoOtherKind(t *testing.T) {
	config := ownPlane(t).Config()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	const ns = "default"
	many, other := &simpleKind{client, testkit.Group(t), ns, "Crowd"}, &simpleKind{client, testkit.Group(t), ns, "Other"}
	c := run(t, config)
	for _, p := range []*simpleKind{many, other} {
		noError(t, "a definition", p.create(ctx, t))
	}
	c.stop()

	names := make([]string, testkit.Size(400, 10_000))
	for i := range names {
		names[i] = fmt.Sprintf("c%05d", i)
	}
	l := lifecycle{group: many.group, ns: ns}
	if err := concurrently(names, func(name string) error {
		return l.apply(ctx, t, many.objects(), many.instance(name))
	}); err != nil {
		t.Fatal(err)
	}

	c = run(t, config)
	other.createInstances(t)
	waiting := 0
	list, err := many.objects().List(ctx, metav1.ListOptions{})
	noError(t, "list the instances", err)
	for i := range list.Items {
		if testkit.IsReady(&list.Items[i]) != nil {
			waiting++
		}
	}
	if waiting == 0 {
		t.Errorf("all %d instances of one kind were reconciled before the first five of the other", len(names))
	}
	if err := c.await(ctx, func() error {
		last, err := many.objects().Get(ctx, names[len(names)-1], metav1.GetOptions{})
		if err != nil {
			return err
		}
		return testkit.IsReady(last)
	}); err != nil {
		t.Fatal(err)
	}
	testkit.Report(t, "watches: %d of %d instances of another kind still wait when five instances are ready", waiting, len(names))
}

// createInstances creates five instances, one after the other, and waits until each is ready.
func (p *simpleKind) createInstances(t *testing.T) {
	t.Helper()
	l := lifecycle{group: p.group, ns: p.ns}
	for i := range 5 {
		name := fmt.Sprint("first-", i)
		noError(t, "an instance", l.apply(t.Context(), t, p.objects(), p.instance(name)))
		noError(t, name, await(t.Context(), p.objects(), name, testkit.IsReady))
	}
}
