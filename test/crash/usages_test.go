package crash

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// usedDefinition has two nodes of which one uses the other, two that use each other, and
// one that the instance protects itself by.
var usedDefinition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: sweep-used}
spec:
  schema: {apiVersion: v1alpha1, kind: Used, group: sweep.example.com}
  resources:
    - {id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x-a}}}
    - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x-b}, data: {of: "${a.metadata.name}"}}}
    - {id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x-c}}}` +
	usageNode("ab", "b", "a") + usageNode("ac", "a", "c") + usageNode("ca", "c", "a") +
	suite.UsageNode("whole", "x-whole", "{reason: because, of: {apiVersion: sweep.example.com/v1alpha1, kind: Used, resourceRef: {name: x}}}")

func usageNode(id, of, by string) string {
	return suite.UsageNode(id, "x-"+id, "{of: "+suite.UsageRef(of)+", by: "+suite.UsageRef(by)+"}")
}

const (
	usedInstance = "apiVersion: sweep.example.com/v1alpha1\nkind: Used\nmetadata: {name: x, namespace: $NS}\n"
	heldUsage    = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: held, namespace: $NS}
spec: {reason: the ledger, of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: x-c}}}
`
	replaying  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: used, namespace: $NS}\n"
	replayedBy = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: x, namespace: $NS}
spec: {reason: because, replayDeletion: true, of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}}
`
)

// awaitUsed waits until the instance and its usages are ready.
func awaitUsed(t *testing.T, w *testkit.Cluster, ns string) {
	t.Helper()
	w.AwaitReady(t, steps.Kind("Used"), ns, "x")
	for _, name := range []string{"x-ab", "x-ac", "x-ca", "x-whole"} {
		w.AwaitReady(t, usage.Kinds[0], ns, name)
	}
}

func awaitUsage(name string) steps.Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) { w.AwaitReady(t, usage.Kinds[0], ns, name) }
}

func deleteUsage(name string) steps.Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) { w.Delete(t, usage.Kinds[0], ns, name) }
}

// refuse records a deletion as the webhook does when it refuses one.
func refuse(name string) steps.Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		t.Helper()
		o := w.Get(t, suite.ConfigMap, ns, name)
		refused := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"object":            map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": ns, "name": name, "uid": string(o.GetUID())},
			"propagationPolicy": "Background",
			"user":              map[string]any{"username": "admin", "groups": []any{"system:masters"}},
		}}}
		refused.SetGroupVersionKind(espalier.GroupVersion.WithKind(espalier.RefusedDeletionKind))
		refused.SetName(object.Digest(object.KeyOf(o)))
		if _, err := w.TryApply(t, refused); err != nil {
			t.Fatal(err)
		}
		w.Patch(t, suite.ConfigMap, ns, name, `{"metadata":{"annotations":{"usage.crossplane.io/deletion-attempt-with-policy":"Background"}}}`)
	}
}

var usageScenarios = []scenario{
	{sparse: true, name: "create with usages", act: steps.Apply(usedInstance), settled: awaitUsed},
	{
		sparse: true, name: "delete with usages", before: steps.All(steps.Apply(usedInstance), awaitUsed),
		act: steps.Delete(steps.Kind("Used"), metav1.DeletePropagationBackground), settled: steps.AwaitGone(steps.Kind("Used")),
	},
	{
		sparse: true, name: "delete what is in use", before: steps.All(steps.Apply(usedInstance), awaitUsed, steps.All(steps.Apply(heldUsage), awaitUsage("held"))),
		act: steps.All(steps.Delete(steps.Kind("Used"), metav1.DeletePropagationBackground),
			steps.AwaitBlocker(steps.Kind("Used"), "x-c", report.Protected), deleteUsage("held")),
		settled: steps.AwaitGone(steps.Kind("Used")),
	},
	{
		name: "replay a deletion", before: steps.All(steps.Apply(replaying), steps.Apply(replayedBy), steps.All(awaitUsage("x"), refuse("used"))),
		act: deleteUsage("x"), settled: steps.All(steps.AwaitAbsent(suite.ConfigMap, "used"), steps.AwaitGone(usage.Kinds[0])),
	},
}

// TestSweepOfUsages is a sweep where usages are served. It is the last in this package:
// once their kinds are there they are watched.
func TestSweepOfUsages(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	stop := steps.RunWith(t, server.Options{Config: config, Settings: server.Settings{Usages: true}})
	steps.Define(t, w)
	w.Apply(t, usedDefinition)
	w.AwaitReady(t, schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}, "", "sweep-used")
	stop()
	points := 0
	for _, s := range usageScenarios {
		t.Run(s.name, func(t *testing.T) {
			want, writes := converge(t, config, w, s, testkit.Namespace(t, config), 0)
			for _, n := range s.points(writes) {
				points++
				ns := testkit.Namespace(t, config)
				got, _ := converge(t, config, w, s, ns, n)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("after a crash at write %d of %d the cluster differs (-without +with):\n%s", n, writes, diff)
				}
				if left, _ := w.Resource(t, usage.Kinds[0], ns).List(t.Context(), metav1.ListOptions{}); s.name != "create with usages" && len(left.Items) > 0 {
					t.Errorf("after a crash at write %d of %d there are %v", n, writes, namesOf(left))
				}
			}
			t.Logf("%d writes", writes)
		})
	}
	testkit.Report(t, "sweep of usages: %d crash points", points)
}

func namesOf(list *unstructured.UnstructuredList) (names []string) {
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}
