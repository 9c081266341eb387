package graphs

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestManyObjectsFeedOne: an Ingress has a rule for each Service, as long as there is one.
func TestManyObjectsFeedOne(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("entry", `
  - {id: svcs, ref: {apiVersion: v1, kind: Service, metadata: {namespace: $NS, selector: {matchLabels: {public: "true"}}}}}
  - id: entry
    includeWhen: ["${size(svcs) > 0}"]
    template:
      apiVersion: networking.k8s.io/v1
      kind: Ingress
      metadata: {name: entry}
      spec:
        rules: "${svcs.map(s, {'host': s.metadata.name + '.example.org'})}"`))
	s.Await(t, graph.GraphKind, s.NS, "entry", condition("Ready", "True", ""))
	for _, name := range []string{"one", "two"} {
		s.Apply(t, "{apiVersion: v1, kind: Service, metadata: {name: "+name+", namespace: $NS, labels: {public: \"true\"}}, spec: {ports: [{port: 80}]}}")
	}
	ingress := networkingv1.SchemeGroupVersion.WithKind("Ingress")
	s.Await(t, ingress, s.NS, "entry", suite.HasField([]any{map[string]any{"host": "one.example.org"}, map[string]any{"host": "two.example.org"}}, "spec", "rules"))
	service := corev1.SchemeGroupVersion.WithKind("Service")
	s.Delete(t, service, s.NS, "one")
	s.Await(t, ingress, s.NS, "entry", suite.HasField([]any{map[string]any{"host": "two.example.org"}}, "spec", "rules"))
	s.Delete(t, service, s.NS, "two")
	s.AwaitGone(t, ingress, s.NS, "entry")
}

const deployment = `
  - id: d
    readyWhen: ["${d.status.availableReplicas == d.spec.replicas}"]
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        replicas: 2
        selector: {matchLabels: {app: web}}
        template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}
  - id: s
    template: {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: "${d.spec.selector.matchLabels}", ports: [{port: 80}]}}`

// TestHealthHoldsNobodyUp: a node is applied although the one that it reads is not ready, unless the Graph asks to wait.
func TestHealthHoldsNobodyUp(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	s.Apply(t, graphOf("web", deployment))
	service := corev1.SchemeGroupVersion.WithKind("Service")
	s.Await(t, service, s.NS, "web", suite.HasField("web", "spec", "selector", "app"))
	s.Await(t, graph.GraphKind, s.NS, "web", condition("ResourcesConverged", "False", "WaitingForReadiness", "availableReplicas"))
	s.SetStatus(t, appsv1.SchemeGroupVersion.WithKind("Deployment"), s.NS, "web", map[string]any{
		"observedGeneration": int64(1), "replicas": int64(2), "readyReplicas": int64(2), "availableReplicas": int64(2)})
	s.Await(t, graph.GraphKind, s.NS, "web", condition("Ready", "True", ""))
}

// TestANodeAsksWhetherAnotherIsReady before it changes its object.
func TestANodeAsksWhetherAnotherIsReady(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	pair := func(image string) string {
		return graphOf("pair", `
  - id: canary
    readyWhen: ["${canary.data.?runs.orValue('') == canary.data.image}"]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: canary}, data: {image: `+image+`}}
  - id: rest
    propagateWhen: ["${canary.ready() && canary.updated()}"]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: rest}, data: {image: `+image+`}}`)
	}
	held := condition("ResourcesConverged", "False", "", "canary.ready() && canary.updated() is false")
	s.Apply(t, pair("v1"))
	s.Await(t, graph.GraphKind, s.NS, "pair", held)
	if s.Get(t, configMap, s.NS, "rest") != nil {
		t.Error("rest exists before canary is ready")
	}
	s.Patch(t, configMap, s.NS, "canary", `{"data": {"runs": "v1"}}`)
	s.Await(t, configMap, s.NS, "rest", suite.HasField("v1", "data", "image"))
	s.Apply(t, pair("v2"))
	s.Await(t, configMap, s.NS, "canary", suite.HasField("v2", "data", "image"))
	s.Await(t, graph.GraphKind, s.NS, "pair", held)
	if err := suite.HasField("v1", "data", "image")(s.Get(t, configMap, s.NS, "rest")); err != nil {
		t.Errorf("rest: %v", err)
	}
	s.Patch(t, configMap, s.NS, "canary", `{"data": {"runs": "v2"}}`)
	s.Await(t, configMap, s.NS, "rest", suite.HasField("v2", "data", "image"))
	s.Await(t, graph.GraphKind, s.NS, "pair", condition("Ready", "True", ""))
}

// TestAGraphIsReadyWhenItsGraphsExist, unless it reads that they are ready.
func TestAGraphIsReadyWhenItsGraphsExist(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	const child = `
  - id: child
    template:
      apiVersion: kro.run/v1alpha1
      kind: Graph
      metadata: {name: child}
      spec: {serviceAccountName: builder, nodes: [{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${'${absent.x}'}"}}}]}`
	s.Apply(t, graphOf("parent", child))
	s.Await(t, graph.GraphKind, s.NS, "child", condition("Accepted", "False", "InvalidGraph"))
	s.Await(t, graph.GraphKind, s.NS, "parent", condition("Ready", "True", ""))
	s.Apply(t, graphOf("parent", child+`
  - id: state
    ref: {apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: "${child.metadata.name}"}}
    readyWhen: ["${state.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')}"]`))
	s.Await(t, graph.GraphKind, s.NS, "parent", condition("ResourcesConverged", "False", "WaitingForReadiness", "state"))
}
