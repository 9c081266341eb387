package sharding

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// world is a cluster with replicas, and instances in several namespaces.
type world struct {
	suite.Suite
	namespaces []string
	cloud      *cloud.Faulty
	journal    *journal
}

const graph = `
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-first"}, data: {value: "${schema.spec.value}"}}
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-second"}, data: {value: "${first.data.value}"}}
`

func newWorld(t *testing.T, namespaces int) *world {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	w := &world{
		Suite:   suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)},
		journal: &journal{}, cloud: cloud.NewFaulty(cloud.New(cloud.Options{Journal: &cloud.Journal{}})),
	}
	w.FreeLeases(t)
	for range namespaces {
		w.namespaces = append(w.namespaces, testkit.Namespace(t, config))
	}
	return w
}

func (w *world) start(t *testing.T, name string) *replica {
	t.Helper()
	return start(t, name, w.Config, w.NS, w.cloud, w.journal, nil)
}

// createInstances creates an instance in each namespace.
func (w *world) createInstances(t *testing.T, kind, value string) {
	t.Helper()
	for _, ns := range w.namespaces {
		w.Apply(t, fmt.Sprintf("\napiVersion: $GROUP/v1alpha1\nkind: %s\nmetadata: {name: x, namespace: %s}\nspec: {value: %s}\n", kind, ns, value))
	}
}

// TestReplicasShareTheWork runs two replicas, adds a third, and stops them one after the other.
func TestReplicasShareTheWork(t *testing.T) {
	w := newWorld(t, 24)
	first := w.start(t, "first")
	second := w.start(t, "second")
	first.awaitReady(t)
	second.awaitReady(t)
	w.Apply(t, suite.Graph("Thing", "spec: {value: string}, status: {value: '${second.data.value}'}", graph))
	w.AwaitDefinitions(t, "thing")
	kind := w.Kind("Thing")
	w.createInstances(t, "Thing", "one")
	w.awaitValues(t, "one")
	for name, n := range w.journal.by() {
		if n < 6*len(w.namespaces)/6 {
			t.Errorf("%s has made %d writes", name, n)
		}
	}
	third := w.start(t, "third")
	third.awaitReady(t)
	w.createInstances(t, "Thing", "two")
	w.awaitValues(t, "two")
	first.stop()
	w.createInstances(t, "Thing", "three")
	w.awaitValues(t, "three")
	second.stop()
	for _, ns := range w.namespaces {
		w.Delete(t, kind, ns, "x")
	}
	for _, ns := range w.namespaces {
		w.AwaitGone(t, kind, ns, "x")
	}
	if late := w.journal.late(); len(late) > 0 {
		t.Errorf("written after a later owner: %v", late)
	}
	t.Log(w.journal.by())
	third.stop()
}

func (w *world) awaitValues(t *testing.T, value string) {
	t.Helper()
	for _, ns := range w.namespaces {
		w.Await(t, w.Kind("Thing"), ns, "x", suite.All(testkit.IsReady, suite.HasField(value, "status", "value")))
	}
}
