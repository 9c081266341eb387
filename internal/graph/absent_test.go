package graph_test

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/object"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph"
)

func TestAKindThatCannotComeIsRefused(t *testing.T) {
	d := definition(t, `
metadata: {name: typo}
spec:
  schema: {kind: Typo, apiVersion: v1alpha1, spec: {size: string}}
  resources:
    - id: web
      template: {apiVersion: apps/v1, kind: Deploymnet, metadata: {name: web}, spec: {anything: "${schema.spec.sise}"}}
    - id: reference
      externalRef: {apiVersion: v1, kind: Frobnicator, metadata: {name: a}}
    - id: later
      template: {apiVersion: apps.example.com/v1, kind: Deploymnet, metadata: {name: "${web.metadata.name}"}}
`)
	kinds := commonKinds(t, "")
	kinds[schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deploymnet"}] = object.KindInfo{NeverServed: true, Siblings: []string{"DaemonSet", "Deployment"}}
	kinds[schema.GroupVersionKind{Version: "v1", Kind: "Frobnicator"}] = object.KindInfo{NeverServed: true, Siblings: []string{"ConfigMap"}}
	g, problems := graph.Compile(&d.Spec, kinds)
	const want = `spec.resources[0].template.kind: no matches for kind "Deploymnet" in version "apps/v1"; did you mean "Deployment"?
spec.resources[0].template.spec.anything: in "schema.spec.sise" at 13: undefined field 'sise' in schema.spec; did you mean "size"?
spec.resources[1].externalRef.kind: no matches for kind "Frobnicator" in version "v1"`
	if diff := cmp.Diff(want, problems.Err().Error()); g != nil || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", g, diff)
	}
	if g := graph.CompileAccepted(&d.Spec, kinds); g != nil {
		t.Error("two kinds that can't come, and a field that isn't declared, are served")
	}
}

func TestAnAcceptedDefinitionServesWithoutAnAbsentKind(t *testing.T) {
	d := definition(t, `
metadata: {name: typo}
spec:
  schema: {kind: Typo, apiVersion: v1alpha1}
  resources:
    - id: web
      template: {apiVersion: apps/v1, kind: Deploymnet, metadata: {name: web}}
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
`)
	kinds, typo := commonKinds(t, ""), schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deploymnet"}
	kinds[typo] = object.KindInfo{NeverServed: true}
	g := graph.CompileAccepted(&d.Spec, kinds)
	if g == nil || len(g.Missing) != 1 || g.Missing[0] != typo {
		t.Errorf("got %v", g)
	}
}
