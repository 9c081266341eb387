package watches

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestSweepManyInstancesDelayNoOtherKind makes many instances of one kind while the
// controllers are away. When they are back, with all of that before them, the
// first instances of another kind are made.
func TestSweepManyInstancesDelayNoOtherKind(t *testing.T) {
	config := ownPlane(t).Config()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	const ns = "default"
	crowd, other := &simpleKind{client, testkit.Group(t), ns, "Crowd"}, &simpleKind{client, testkit.Group(t), ns, "Other"}
	c := run(t, config)
	for _, p := range []*simpleKind{crowd, other} {
		noError(t, "a definition", p.create(ctx, t))
	}
	c.stop()

	names := make([]string, testkit.Size(400, 10_000))
	for i := range names {
		names[i] = fmt.Sprintf("c%05d", i)
	}
	at := lifecycle{group: crowd.group, ns: ns}
	if err := concurrently(names, func(name string) error {
		return at.apply(ctx, t, crowd.objects(), crowd.instance(name))
	}); err != nil {
		t.Fatal(err)
	}

	c = run(t, config)
	other.createInstances(t)
	behind := 0
	list, err := crowd.objects().List(ctx, metav1.ListOptions{})
	noError(t, "the crowd", err)
	for i := range list.Items {
		if testkit.IsReady(&list.Items[i]) != nil {
			behind++
		}
	}
	if behind == 0 {
		t.Errorf("%d of another kind were all reconciled before the first five of this kind", len(names))
	}
	if err := c.await(ctx, func() error {
		last, err := crowd.objects().Get(ctx, names[len(names)-1], metav1.GetOptions{})
		if err != nil {
			return err
		}
		return testkit.IsReady(last)
	}); err != nil {
		t.Fatal(err)
	}
	testkit.Report(t, "churn: %d of %d of another kind still wait when five instances are ready", behind, len(names))
}

// createInstances makes some instances, one after the other, and waits until each is ready.
func (p *simpleKind) createInstances(t *testing.T) {
	t.Helper()
	at := lifecycle{group: p.group, ns: p.ns}
	for i := range 5 {
		name := fmt.Sprint("first-", i)
		noError(t, "an instance", at.apply(t.Context(), t, p.objects(), p.instance(name)))
		noError(t, name, await(t.Context(), p.objects(), name, testkit.IsReady))
	}
}
