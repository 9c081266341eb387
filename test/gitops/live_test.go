// Package gitops proves that tools understand the status of every kind: kstatus, which Helm and Flux use, Argo CD, Flux's
// expressions, and kubectl wait.
package gitops

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

var sky = cloud.New(cloud.Options{})

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, server.Options{Settings: server.Settings{Usages: true, Graphs: true}, Providers: []managed.Provider{sandbox.Provider(sky)}}, nil))
}

// objects are what the test creates, in this order.
const objects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: taken, namespace: $NS}
---` + suite.Box + `---` + suite.BoxInstance + `
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-asks}
spec:
  schema: {apiVersion: v1alpha1, kind: Asks, group: $GROUP}
  resources:
    - id: other
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: absent}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-takes}
spec:
  schema: {apiVersion: v1alpha1, kind: Takes, group: $GROUP}
  resources:
    - id: other
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: taken}, data: {a: b}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-own}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Own
    group: $GROUP
    status: {conditions: ["${runtime.newCondition({type: 'Mine', status: 'True'})}"]}
  resources:
    - id: other
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-wrong}
spec:
  schema: {apiVersion: v1alpha1, kind: Wrong, group: $GROUP, status: {a: "${nobody.status.a}"}}
  resources: []
---
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: values, namespace: $NS}
spec: {nodes: [{id: a, def: {b: 1}}]}
---
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: wrong, namespace: $NS}
spec: {nodes: [{id: a, def: "${nobody}"}]}
---
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: waits, namespace: $NS}
spec: {nodes: [{id: a, def: "${[1][1]}"}]}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: $ID-nobody}
spec: {package: example.org/nobody:v1}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: $ID-auto-ready}
spec: {package: xpkg.crossplane.io/crossplane-contrib/function-auto-ready:v0.5.0}
---
apiVersion: pkg.crossplane.io/v1
kind: FunctionRevision
metadata: {name: $ID-rest, labels: {pkg.crossplane.io/package: $ID-nobody}}
spec: {desiredState: Inactive, image: example.org/nobody:v1, revision: 1}
---
apiVersion: pkg.crossplane.io/v1
kind: FunctionRevision
metadata: {name: $ID-lone, labels: {pkg.crossplane.io/package: $ID-lone}}
spec: {desiredState: Active, image: example.org/lone:v1, revision: 1}
---
apiVersion: sandbox.espalier.dev/v1alpha1
kind: Bucket
metadata: {name: kept, namespace: $NS}
spec: {forProvider: {region: north}}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: because, namespace: $NS}
spec: {reason: because, of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: taken}}}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: absent, namespace: $NS}
spec: {reason: because, of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: absent}}}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: outside, namespace: $NS}
spec: {reason: because, of: {apiVersion: v1, kind: Namespace, resourceRef: {name: default}}}
`

// composed are composites and claims.
var composed = suite.XRD("v1", "XShop", "", "", "claimNames: {kind: Shop, plural: shops}") + `---` +
	suite.Composition("shop", "XShop", suite.PatchAndTransform(`
      - name: store
        base: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS}}
        readinessChecks: [{type: None}]
      - name: slow
        base: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS}}
        readinessChecks: [{type: NonEmpty, fieldPath: data.never}]
`)) + `---` +
	suite.XRD("v2", "Stand", "", "", "scope: Namespaced") + `---` +
	suite.Composition("stand", "Stand", suite.PatchAndTransform(`
      - name: store
        base: {apiVersion: v1, kind: ConfigMap}
        readinessChecks: [{type: None}]
`)+suite.AutoReady) + `---` +
	suite.XRD("v2", "Stuck", "", "", "scope: Namespaced") + `---` +
	suite.Composition("stuck", "Stuck", suite.PatchAndTransform(`
      - name: space
        base: {apiVersion: v1, kind: Namespace}
`)) + `---` +
	suite.XRD("v1", "XMarket", "", "", "claimNames: {kind: Market, plural: markets}") + `---` +
	suite.Composition("market", "XMarket", suite.PatchAndTransform(`
      - name: store
        base: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS}}
        readinessChecks: [{type: None}]
`)+suite.AutoReady) + `---` +
	suite.Composition("lost", "XMarket", "  - {step: ask, functionRef: {name: $ID-absent}}\n") + `---
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: wrongs.$GROUP}
spec:
  group: $GROUP
  scope: Namespaced
  names: {kind: Wrong, plural: wrongs}
  versions: [{name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: strange}}}}}]
`

// TestToolsUnderstandEveryKind brings objects of each role into their states, and asks the tools.
func TestToolsUnderstandEveryKind(t *testing.T) {
	s := suite.New(t)
	r := recorder{Suite: s, kubeconfig: testkit.Kubeconfig(t, s.Config), kubectl: testkit.Kubectl(t)}
	s.AllowImpersonation(t, "default") // of the Graphs
	s.Apply(t, objects)
	s.Apply(t, composed)
	instance := func(kind, name, metadata string) string {
		return "\n---\napiVersion: $GROUP/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + metadata + "}\n"
	}
	for _, kind := range []string{"Asks", "Takes", "Own"} {
		s.AwaitDefinitions(t, strings.ToLower(kind))
		s.Apply(t, instance(kind, "x", ", namespace: $NS"))
	}
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: complete, namespace: $NS}\n"+instance("Own", "complete", ", namespace: $NS"))
	for _, kind := range []string{"Shop", "Market", "Stand", "Stuck"} {
		definition := map[string]string{"Shop": "xshops", "Market": "xmarkets"}[kind]
		if definition == "" {
			definition = strings.ToLower(kind) + "s"
		}
		s.Await(t, xrd, "", definition+"."+s.Group, isTrue("Established"))
		selected := "spec: {}\n"
		if kind == "Market" {
			selected = "spec: {compositionRef: {name: $ID-market}}\n"
		}
		s.Apply(t, instance(kind, "x", ", namespace: $NS")+selected)
	}
	s.Apply(t, instance("Stand", "paused", ", namespace: $NS")+"spec: {}\n")

	r.ready(t, instanceRole, s.Kind("Box"), s.NS, "x")
	r.record(t, instanceRole, "waiting", s.Kind("Asks"), s.NS, "x", suite.HasCondition("Reconciling", "True", "WaitingForExternal"))
	r.record(t, instanceRole, "in error", s.Kind("Takes"), s.NS, "x", suite.HasCondition("Stalled", "True", "NotOwned"))
	r.record(t, instanceRole, "waiting with the author's conditions", s.Kind("Own"), s.NS, "x", suite.All(isTrue("Mine"), suite.HasField("IN_PROGRESS", "status", "state")))
	r.record(t, instanceRole, "active with the author's conditions", s.Kind("Own"), s.NS, "complete", suite.All(isTrue("Mine"), suite.HasField("ACTIVE", "status", "state")))
	r.ready(t, definitionRole, suite.RGD, "", s.Name("box"))
	r.record(t, definitionRole, "invalid", suite.RGD, "", s.Name("wrong"), suite.HasCondition("Stalled", "True", "InvalidResourceGraph"))
	r.ready(t, graphRole, graph.GraphKind, s.NS, "values")
	r.record(t, graphRole, "invalid", graph.GraphKind, s.NS, "wrong", suite.HasCondition("Stalled", "True", "InvalidGraph"))
	r.record(t, graphRole, "waiting", graph.GraphKind, s.NS, "waits", suite.HasCondition("Reconciling", "True", "DataPending"))
	r.ready(t, graphRevision, schema.GroupVersionKind{Group: "internal.kro.run", Version: "v1alpha1", Kind: "GraphRevision"}, "", s.Name("box")+"-r00001")

	r.ready(t, xrdRole, xrd, "", "stands."+s.Group)
	r.record(t, xrdRole, "invalid", xrd, "", "wrongs."+s.Group, isTrue("Stalled"))
	r.ready(t, compositeRole, s.Kind("Stand"), s.NS, "x")
	r.record(t, compositeRole, "in error", s.Kind("Stuck"), s.NS, "x", suite.HasCondition("Stalled", "True", "ReconcileError"))
	r.ready(t, claimRole, s.Kind("Market"), s.NS, "x")
	r.record(t, claimRole, "waiting", s.Kind("Shop"), s.NS, "x", suite.HasCondition("Reconciling", "True", "Waiting"))
	s.AwaitReady(t, s.Kind("Stand"), s.NS, "paused")
	s.Apply(t, instance("Stand", "paused", `, namespace: $NS, annotations: {crossplane.io/paused: "true"}`)+"spec: {}\n")
	r.record(t, compositeRole, "paused while it is ready", s.Kind("Stand"), s.NS, "paused", suite.HasCondition("Synced", "False", "ReconcilePaused"))
	for composition, is := range map[string]string{"market": "", "lost": "without a function"} {
		revision := schema.GroupVersionKind{Group: xrd.Group, Version: "v1", Kind: "CompositionRevision"}
		var name string
		s.AwaitList(t, revision, "", "crossplane.io/composition-name="+s.Name(composition), func(all map[string]*unstructured.Unstructured) error {
			for _, o := range all {
				name = o.GetName()
				return nil
			}
			return os.ErrNotExist
		})
		if is == "" {
			r.ready(t, compositionRev, revision, "", name)
		} else {
			r.record(t, compositionRev, is, revision, "", name, suite.HasCondition("Stalled", "True", "MissingCapabilities"))
		}
	}
	function := schema.GroupVersionKind{Group: "pkg.crossplane.io", Version: "v1", Kind: "Function"}
	functionRevision := function.GroupVersion().WithKind("FunctionRevision")
	r.ready(t, functionRole, function, "", s.Name("auto-ready"))
	r.record(t, functionRole, "not served", function, "", s.Name("nobody"), isTrue("Stalled"))
	r.ready(t, functionRevRole, functionRevision, "", s.Name("rest"))
	r.record(t, functionRevRole, "without an endpoint", functionRevision, "", s.Name("lone"), suite.HasCondition("Stalled", "True", "NoEndpoint"))

	usage := schema.GroupVersionKind{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "Usage"}
	r.ready(t, usageRole, usage, s.NS, "because")
	r.record(t, usageRole, "waiting", usage, s.NS, "absent", suite.HasCondition("Reconciling", "True", "Unavailable"))
	r.record(t, usageRole, "of another namespace", usage, s.NS, "outside", suite.HasCondition("Stalled", "True", "OutsideNamespace"))

	bucket := schema.GroupVersionKind{Group: "sandbox.espalier.dev", Version: "v1alpha1", Kind: "Bucket"}
	r.ready(t, managedRole, bucket, s.NS, "kept")
	s.Apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: second, namespace: $NS, annotations: {crossplane.io/external-name: $NS-taken}}\nspec: {forProvider: {region: north}}\n")
	r.ready(t, managedRole, bucket, s.NS, "second")
	s.Apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: third, namespace: $NS, annotations: {crossplane.io/external-name: $NS-taken}}\nspec: {forProvider: {region: north}}\n")
	r.record(t, managedRole, "with the name of another", bucket, s.NS, "third", suite.HasCondition("Stalled", "True", "NameReserved"))

	// A finalizer of another program keeps an instance.
	s.PatchAs(t, "other", suite.ConfigMap, s.NS, "x-content", `{"metadata":{"finalizers":["example.org/keep"]}}`)
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	r.record(t, instanceRole, "being deleted", s.Kind("Box"), s.NS, "x", suite.HasCondition("Ready", "False", "Deleting"))
	s.PatchAs(t, "other", suite.ConfigMap, s.NS, "x-content", `{"metadata":{"finalizers":[]}}`)
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
	r.compare(t)
}

var xrd = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}

func isTrue(kind string) suite.Check { return suite.HasCondition(kind, "True", "") }

// recorder records the states of objects.
type recorder struct {
	suite.Suite
	kubeconfig, kubectl string
	states              []state
}

// ready waits for an object by kubectl, and records it.
func (r *recorder) ready(t *testing.T, role string, kind schema.GroupVersionKind, namespace, name string) {
	t.Helper()
	args := []string{"wait", "--for=condition=Ready", "--timeout=60s", "--kubeconfig", r.kubeconfig, kind.Kind + "." + kind.Version + "." + kind.Group + "/" + name}
	if namespace != "" {
		args = append(args, "--namespace", namespace)
	}
	if out, err := exec.CommandContext(t.Context(), r.kubectl, args...).CombinedOutput(); err != nil {
		t.Errorf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, testkit.JSON(r.Get(t, kind, namespace, name)))
	}
	r.record(t, role, "ready", kind, namespace, name, isTrue("Ready"))
}

// record waits until an object is in a state, and records the state.
func (r *recorder) record(t *testing.T, role, is string, kind schema.GroupVersionKind, namespace, name string, check suite.Check) {
	t.Helper()
	o := r.Await(t, kind, namespace, name, check)
	found := state{Of: role, Is: is, Verdict: verdictOf(t, o), Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind()}}
	metadata := map[string]any{"name": o.GetName(), "generation": o.GetGeneration()}
	if at := o.GetDeletionTimestamp(); at != nil {
		metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	found.Object["metadata"] = metadata
	if status, has, _ := unstructured.NestedMap(o.Object, "status"); has {
		found.Object["status"] = map[string]any{}
		for _, field := range []string{"observedGeneration", "state", "conditions"} {
			if value, has := status[field]; has {
				found.Object["status"].(map[string]any)[field] = value
			}
		}
	}
	if !slices.ContainsFunc(r.states, func(s state) bool { return s.Of == role && s.Is == is }) {
		r.states = append(r.states, found)
	}
}

// compare compares the verdicts with the recorded ones, or writes the states with -update. The states of activations are
// recorded by hand.
func (r *recorder) compare(t *testing.T) {
	t.Helper()
	recorded := readStates(t)
	if golden.Update() && !t.Failed() {
		for _, s := range recorded {
			if s.Of == activationRole {
				r.states = append(r.states, s)
			}
		}
		raw, err := yaml.Marshal(r.states)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer(r.Group, "example.org", r.NS, "team", strings.SplitN(r.Group, ".", 2)[0], "test").Replace(string(raw))
		if err := os.WriteFile(recordedStates, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, s := range r.states {
		at := slices.IndexFunc(recorded, func(old state) bool { return old.Of == s.Of && old.Is == s.Is })
		switch {
		case at < 0:
			t.Errorf("%s lacks: %s, %s", recordedStates, s.Of, s.Is)
		case recorded[at].Verdict != s.Verdict:
			t.Errorf("%s, %s: recorded %+v, now %+v", s.Of, s.Is, recorded[at].Verdict, s.Verdict)
		}
	}
}
