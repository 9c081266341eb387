package sharding

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/manager"
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
	if late := late(w.journal.all()); len(late) > 0 {
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

// TestARolloutSpansReplicas rolls a revision out in waves over instances of two replicas: each wave waits for the
// instances of both.
func TestARolloutSpansReplicas(t *testing.T) {
	w := newWorld(t, 12)
	replicas := []*replica{w.start(t, "first"), w.start(t, "second")}
	for _, r := range replicas {
		r.awaitReady(t)
	}
	define := func(expression, gate string) {
		w.Apply(t, fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-thing}
spec:
  schema: {apiVersion: v1alpha1, kind: Thing, group: $GROUP, spec: {value: string}, status: {value: "${second.data.value}"}}
  rollout: {waves: [{percent: 50}]}
  resources:
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {value: "%s"}}
      readyWhen: ["%s"]
`, expression, gate))
	}
	define("${schema.spec.value}", "${second.data.value != ''}")
	w.AwaitDefinitions(t, "thing")
	w.createInstances(t, "Thing", "one")
	w.awaitValues(t, "one")

	define("${schema.spec.value}-2", "${second.data.value != 'bad-2'}")
	w.Await(t, suite.RGD, "", w.Name("thing"), suite.All(testkit.IsReady, suite.HasField("Complete", "status", "rollout", "phase"), suite.HasField(int64(2), "status", "rollout", "revision"),
		suite.HasField(int64(12), "status", "rollout", "total"), suite.HasField(int64(12), "status", "rollout", "ready")))
	w.awaitValues(t, "one-2")

	t.Log("no instance is ready at the next one: the first wave does not end")
	define("${schema.spec.value}-3", "${second.data.value != 'one-3'}")
	d := w.Await(t, suite.RGD, "", w.Name("thing"), suite.All(suite.HasField("Progressing", "status", "rollout", "phase"), suite.HasField(int64(3), "status", "rollout", "revision"), suite.HasField(int64(6), "status", "rollout", "updated")))
	if ready, _, _ := unstructured.NestedInt64(d.Object, "status", "rollout", "ready"); ready != 0 {
		t.Errorf("%d instances are reported ready", ready)
	}
	w.createInstances(t, "Thing", "two")
	w.Await(t, suite.RGD, "", w.Name("thing"), suite.All(testkit.IsReady, suite.HasField("Complete", "status", "rollout", "phase")))
	w.awaitValues(t, "two-3")
	for _, r := range replicas {
		r.stop()
	}
}

// TestALeaderWithoutShardingRunsAlone starts a process that elects a leader while replicas share the work. It waits until
// the last of them has stopped, and new replicas wait until it has.
func TestALeaderWithoutShardingRunsAlone(t *testing.T) {
	w := newWorld(t, 4)
	first, second := w.start(t, "first"), w.start(t, "second")
	first.awaitReady(t)
	second.awaitReady(t)
	w.Apply(t, suite.Graph("Thing", "spec: {value: string}, status: {value: '${second.data.value}'}", graph))
	w.AwaitDefinitions(t, "thing")
	leader := startAs(t, "leader", w.Config, w.NS, w.cloud, w.journal, nil, func(o *manager.Options) { o.Sharding, o.LeaderElection = false, true })
	w.createInstances(t, "Thing", "one")
	w.awaitValues(t, "one")
	first.stop()
	w.createInstances(t, "Thing", "two")
	w.awaitValues(t, "two")
	select {
	case <-leader.ready:
		t.Fatal("the leader runs beside a replica")
	default:
	}
	second.stop()
	leader.awaitReady(t)
	third := w.start(t, "third")
	w.createInstances(t, "Thing", "three")
	w.awaitValues(t, "three")
	select {
	case <-third.ready:
		t.Fatal("a replica runs beside the leader")
	default:
	}
	leader.stop()
	third.awaitReady(t)
	w.createInstances(t, "Thing", "four")
	w.awaitValues(t, "four")
	third.stop()
}

// TestAHoldRestsAllReplicas: a Hold is acknowledged, and nothing changes until it is deleted.
func TestAHoldRestsAllReplicas(t *testing.T) {
	w := newWorld(t, 8)
	replicas := []*replica{w.start(t, "first"), w.start(t, "second"), w.start(t, "third")}
	for _, r := range replicas {
		r.awaitReady(t)
	}
	w.Apply(t, suite.Graph("Thing", "spec: {value: string}, status: {value: '${second.data.value}'}", graph))
	w.AwaitDefinitions(t, "thing")
	w.createInstances(t, "Thing", "one")
	w.awaitValues(t, "one")
	hold := w.Apply(t, "\napiVersion: espalier.dev/v1alpha1\nkind: Hold\nmetadata: {name: $ID}\nspec: {reason: a test}\n")[0]
	w.Await(t, hold.GroupVersionKind(), "", hold.GetName(), func(o *unstructured.Unstructured) error {
		if since, _, _ := unstructured.NestedString(o.Object, "status", "restingSince"); since == "" {
			return errors.New("it is not acknowledged")
		}
		return nil
	})
	before := len(w.journal.all())
	w.createInstances(t, "Thing", "two")
	replicas[0].stop() // its objects move to others, which rest as well
	w.Delete(t, hold.GroupVersionKind(), "", hold.GetName())
	for _, one := range w.journal.all()[before:] {
		if strings.Contains(one.path, "/namespaces/") { // definitions are not held
			t.Errorf("written in spite of the Hold: %s", one)
		}
	}
	w.awaitValues(t, "two")
	for _, r := range replicas {
		r.stop()
	}
}
