package takeover

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/migration/takeover/migrate"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

// outer is a Graph with a template, a nested graph, a patch and a Graph of its own.
const outer = `
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: outer, namespace: $NS}
spec:
  serviceAccountName: builder
  nodes:
  - {id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: x}}}
  - {id: sub, graph: {nodes: [{id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: "${a.data.k}"}}}]}}
  - {id: p, patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}, data: {mine: v}}}
  - id: inner
    template: {apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: inner}, spec: {serviceAccountName: builder, nodes: [` + innerNode + `]}}
`

const innerNode = `{id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {k: z}}}`

// hashOf is how kro shortens what it puts into the name of a manager.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:12]
}

// kroGraphs writes what kro has written for Graphs of a namespace.
type kroGraphs struct {
	*testkit.Cluster
	ns string
}

// apply applies an object as a manager of kro's, without taking fields over. It reports a conflict as an error of the test.
func (k kroGraphs) apply(t *testing.T, manager, text string) *unstructured.Unstructured {
	t.Helper()
	o := testkit.Parse(t, strings.ReplaceAll(text, "$NS", k.ns))[0]
	out, err := k.Resource(t, o.GroupVersionKind(), k.ns).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: manager})
	if err != nil {
		t.Fatalf("%s: %v", manager, err)
	}
	return out
}

// template applies the object of a node of a Graph.
func (k kroGraphs) template(t *testing.T, of *unstructured.Unstructured, node, kind, name, more string) map[string]any {
	t.Helper()
	version, order := map[string]string{"ConfigMap": "v1", "Graph": "kro.run/v1alpha1"}[kind], 1
	if node == "sub/b" {
		order = 2 // it reads a
	}
	o := k.apply(t, "kro-graphengine.tmpl."+hashOf(string(of.GetUID())), fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: $NS,
  labels: {kro.run/node-id: %s}, annotations: {internal.kro.run/node-path: %s, internal.kro.run/apply-order: "%d"}}, %s}`,
		version, kind, name, strings.ReplaceAll(node, "/", "."), node, order, more))
	return map[string]any{"nodeID": node, "apiVersion": version, "kind": kind, "namespace": k.ns, "name": name, "uid": string(o.GetUID())}
}

// objects applies the objects of a Graph as kro does.
func (k kroGraphs) objects(t *testing.T, g *unstructured.Unstructured) (recorded, contributions []any) {
	t.Helper()
	if g.GetName() == "inner" {
		return []any{k.template(t, g, "c", "ConfigMap", "c", "data: {k: z}")}, nil
	}
	patch := "kro-graphengine.patch." + hashOf(string(g.GetUID())) + "." + hashOf(string(g.GetUID())+"/p")
	k.apply(t, patch, "{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: $NS}, data: {mine: v}}")
	return []any{
			k.template(t, g, "a", "ConfigMap", "a", "data: {k: x}"),
			k.template(t, g, "inner", "Graph", "inner", "spec: {serviceAccountName: builder, nodes: ["+innerNode+"]}"),
			k.template(t, g, "sub/b", "ConfigMap", "b", "data: {k: x}"),
		}, []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": k.ns, "name": "theirs", "fieldManager": patch},
		}
}

// reconcile has kro finish a reconcile of a Graph.
func (k kroGraphs) reconcile(t *testing.T, name string, dropped ...any) {
	t.Helper()
	g := k.Get(t, graph.GraphKind, k.ns, name)
	k.PatchAs(t, "kro", graph.GraphKind, k.ns, name, `{"metadata":{"finalizers":["kro.run/graph-finalizer"]}}`)
	recorded, contributions := k.objects(t, g)
	condition := map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": int64(1), "lastTransitionTime": "2026-01-01T00:00:00Z"}
	status := map[string]any{"conditions": []any{condition}, "appliedServiceAccount": "system:serviceaccount:" + k.ns + ":builder", "managedResources": append(recorded, dropped...)}
	if contributions != nil {
		status["contributions"] = contributions
	}
	k.setStatus(t, name, status)
}

func (k kroGraphs) setStatus(t *testing.T, name string, status map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Resource(t, graph.GraphKind, k.ns).Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kro"}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// liveGraphs are the Graphs of a new namespace that kro has reconciled, without and then with what is no longer rendered: a
// field of the object "a", and the object "dropped".
func liveGraphs(t *testing.T, config *rest.Config, w *testkit.Cluster) (k kroGraphs, leave func()) {
	t.Helper()
	k = kroGraphs{w, testkit.Namespace(t, config)}
	w.Apply(t, strings.ReplaceAll(`
{apiVersion: v1, kind: ServiceAccount, metadata: {name: builder, namespace: $NS}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: builder, namespace: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: builder, namespace: $NS}]
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: $NS}, data: {their: data}}
---`+outer, "$NS", k.ns))
	k.reconcile(t, "outer")
	k.reconcile(t, "inner")
	return k, func() {
		g := w.Get(t, graph.GraphKind, k.ns, "outer")
		k.template(t, g, "a", "ConfigMap", "a", "data: {k: x, former: old}")
		k.reconcileWith(t, g, k.template(t, g, "gone", "ConfigMap", "dropped", "data: {k: x}"))
	}
}

// reconcileWith records a further object, and that a reconcile was interrupted after it had added the field "former".
func (k kroGraphs) reconcileWith(t *testing.T, g *unstructured.Unstructured, dropped map[string]any) {
	t.Helper()
	status, _, _ := unstructured.NestedMap(g.Object, "status")
	recorded, _ := status["managedResources"].([]any)
	status["managedResources"] = append(recorded, dropped)
	k.setStatus(t, g.GetName(), status)
}

var ofGraphs = map[string][]string{"ConfigMap": {"a", "b", "c", "theirs"}, "Graph": {"outer", "inner"}}

// snapshot returns the objects of the Graphs of a namespace.
func (k kroGraphs) snapshot(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for kind, names := range ofGraphs {
		gvk := suite.ConfigMap
		if kind == "Graph" {
			gvk = graph.GraphKind
		}
		for _, name := range names {
			out[kind+" "+name] = k.Get(t, gvk, k.ns, name)
		}
	}
	return out
}

// awaitTakenOver waits until the Graphs are Espalier's, and nothing that they do not render is left.
func (k kroGraphs) awaitTakenOver(t *testing.T) {
	t.Helper()
	k.AwaitGone(t, suite.ConfigMap, k.ns, "dropped")
	for _, name := range ofGraphs["Graph"] {
		k.Await(t, graph.GraphKind, k.ns, name, suite.All(suite.HasCondition("Ready", "True", ""), suite.HasField("true", "metadata", "labels", "kro.run/owned")))
	}
	k.Await(t, suite.ConfigMap, k.ns, "a", suite.HasField(nil, "data", "former"))
	k.Await(t, graph.GraphKind, k.ns, "inner", isOurs)
	for _, name := range []string{"a", "b", "c"} {
		k.Await(t, suite.ConfigMap, k.ns, name, isOurs)
	}
}

// isOurs checks that Espalier applies an object, and kro does not.
func isOurs(o *unstructured.Unstructured) error {
	by := ownership.Managers(o, func(ownership.Entry) bool { return true })
	if !slices.Contains(by, v1alpha1.ChildManager) || strings.Contains(fmt.Sprint(by), v1alpha1.GraphManagerPrefix) {
		return fmt.Errorf("its managers are %v", by)
	}
	return nil
}

func serveKROsGraphs(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	c := suite.Start(t, server.Options{Config: config, Settings: server.Settings{Dialects: []server.Dialect{server.Graph}, Graphs: true, Usages: true}})
	return func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// installGraphs installs the kind as kro does: without the fields that only Espalier has.
func installGraphs(t *testing.T, w *testkit.Cluster) *unstructured.Unstructured {
	t.Helper()
	c := live.GraphCRD(t)
	if _, err := w.Resource(t, suite.CRD, "").Create(t.Context(), c, metav1.CreateOptions{FieldManager: "installer"}); err != nil {
		t.Fatal(err)
	}
	return w.Await(t, suite.CRD, "", c.GetName(), suite.HasCondition("Established", "True", "InitialNamesAccepted"))
}

// TestLiveGraphsOfKROAreTakenOverAndGivenBack compares them with what kro had made. Then kro applies the same again, and finds
// neither an object of another manager nor a field.
func TestLiveGraphsOfKROAreTakenOverAndGivenBack(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	kind := installGraphs(t, w)
	k, leave := liveGraphs(t, config, w)
	before := k.snapshot(t)
	leave()
	kubeconfig, file := testkit.Kubeconfig(t, config), filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: config.espalier.dev/v1alpha1\nkind: ControllerConfiguration\ngraphs: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := func(args ...string) string {
		_, out, errs := runCLI(t.Context(), append([]string{"takeover", "--kubeconfig", kubeconfig}, args...)...)
		return out + errs
	}
	if out := plan("--plan", "--dialects", "graph"); !strings.Contains(strings.Join(strings.Fields(out), " "), "objects of graphs.kro.run (2) stay unchanged") {
		t.Errorf("Graphs are not served, and the plan is\n%s", out)
	}
	out := plan("--plan", "--dialects", "graph", "--config", file)
	for _, text := range []string{"Graph " + k.ns + "/outer", "Graph " + k.ns + "/inner", "ConfigMap " + k.ns + "/dropped", "data.former: removed", "1 deleted"} {
		if !strings.Contains(out, text) {
			t.Errorf("the plan does not contain %q:\n%s", text, out)
		}
	}

	stop := serveKROsGraphs(t, config)
	k.awaitTakenOver(t)
	stop()
	for key, is := range k.snapshot(t) {
		if err := live.IsSameObject(before[key], is); err != nil {
			t.Errorf("%s %v", key, err)
		}
	}
	if out := plan("--plan", "--dialects", "graph", "--config", file); !strings.Contains(out, "nothing needs a takeover") {
		t.Errorf("after the takeover, the plan is\n%s", out)
	}

	giveBack(t, kubeconfig, "kro", "--plan")
	for interrupted := 0; ; interrupted++ { // after each write
		if err := releaseToKRO(t, testkit.NewCrash(1).Wrap(config)); err == nil {
			t.Logf("given back in %d writes", interrupted)
			break
		}
	}
	after := k.snapshot(t)
	for _, key := range slices.Sorted(maps.Keys(after)) {
		spared := func(path string) bool { return strings.Contains(path, ".former") }
		was, is := before[key].DeepCopy(), after[key].DeepCopy()
		if strings.HasPrefix(key, "Graph") {
			k.compareStatus(t, key, was, is)
		}
		if diff := cmp.Diff(content(t, was, spared), content(t, is, spared)); diff != "" {
			t.Errorf("%s: -before +after\n%s", key, diff)
		}
	}
	former, _, _ := unstructured.NestedMap(kind.Object, "spec")
	restored, _, _ := unstructured.NestedMap(w.Get(t, suite.CRD, "", kind.GetName()).Object, "spec")
	if diff := cmp.Diff(former, restored); diff != "" {
		t.Errorf("the kind: -before +after\n%s", diff)
	}
	for _, name := range ofGraphs["Graph"] {
		k.objects(t, k.Get(t, graph.GraphKind, k.ns, name))
	}
	for key, is := range k.snapshot(t) {
		if is.GetResourceVersion() != after[key].GetResourceVersion() {
			t.Errorf("kro's next apply changes %s", key)
		}
	}
}

func releaseToKRO(t *testing.T, config *rest.Config) error {
	t.Helper()
	return migrate.Release(t.Context(), migrate.ReleaseOptions{
		Config: config, Engine: "kro", Lease: manager.LeaseName("espalier"), Now: time.Now, Each: func(preview.Object) {},
	})
}

// compareStatus compares kro's record, and drops the statuses.
func (k kroGraphs) compareStatus(t *testing.T, key string, was, is *unstructured.Unstructured) {
	t.Helper()
	for _, field := range []string{"managedResources", "contributions", "appliedServiceAccount"} {
		a, _, _ := unstructured.NestedFieldNoCopy(was.Object, "status", field)
		b, _, _ := unstructured.NestedFieldNoCopy(is.Object, "status", field)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: status.%s: -before +after\n%s", key, field, diff)
		}
	}
	delete(was.Object, "status")
	delete(is.Object, "status")
}

// TestATakeoverOfGraphsSurvivesACrash at each of its writes, and at each write of the way back. What was taken over is deleted
// with its Graph.
func TestATakeoverOfGraphsSurvivesACrash(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	installGraphs(t, w)
	stop := serveKROsGraphs(t, config)
	w.Await(t, suite.CRD, "", "graphs.kro.run", suite.HasField("1", "metadata", "annotations", "espalier.dev/schema"))
	stop() // its writes would count
	for n, writes := 0, 0; n <= writes; n++ {
		k, leave := liveGraphs(t, config, w)
		before := k.snapshot(t)
		leave()
		crash := testkit.NewCrash(n)
		stop := crash.RunAndRestart(config, func(c *rest.Config) func() { return serveKROsGraphs(t, c) })
		k.awaitTakenOver(t)
		for key, is := range k.snapshot(t) {
			if err := live.IsSameObject(before[key], is); err != nil {
				t.Errorf("after a crash at write %d, %s %v", n, key, err)
			}
		}
		if n == 0 {
			writes = crash.Writes()
			t.Logf("%d writes", writes)
		}
		stop()
		if err := releaseToKRO(t, testkit.NewCrash(n).Wrap(config)); n == 0 && err != nil {
			t.Error(err)
		}
		stop = serveKROsGraphs(t, config) // which takes over again what was given back
		k.awaitTakenOver(t)
		w.Delete(t, graph.GraphKind, k.ns, "outer")
		for _, name := range []string{"a", "b", "c"} {
			w.AwaitGone(t, suite.ConfigMap, k.ns, name)
		}
		w.AwaitGone(t, graph.GraphKind, k.ns, "inner")
		w.AwaitGone(t, graph.GraphKind, k.ns, "outer")
		w.Await(t, suite.ConfigMap, k.ns, "theirs", suite.All(suite.HasField("data", "data", "their"), suite.HasField(nil, "data", "mine")))
		stop()
	}
}

// TestGraphsOfKROAreDeletedRightAfterTheTakeover: their deletion has begun before.
func TestGraphsOfKROAreDeletedRightAfterTheTakeover(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	installGraphs(t, w)
	k, leave := liveGraphs(t, config, w)
	leave()
	w.Delete(t, graph.GraphKind, k.ns, "outer")
	stop := serveKROsGraphs(t, config)
	defer stop()
	w.AwaitGone(t, graph.GraphKind, k.ns, "outer")
	for _, name := range []string{"a", "b", "c", "dropped"} {
		w.AwaitGone(t, suite.ConfigMap, k.ns, name)
	}
	w.AwaitGone(t, graph.GraphKind, k.ns, "inner")
	w.Await(t, suite.ConfigMap, k.ns, "theirs", suite.HasField(nil, "data", "mine"))
}
