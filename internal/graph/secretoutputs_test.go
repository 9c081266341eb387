package graph_test

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/graph"
)

const leaky = `
spec:
  schema: {kind: Leaky, apiVersion: v1alpha1, status: {password: "${string(db.data.password)}", name: "${db.metadata.name}"}}
  resources:
    - id: db
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: db}}
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
`

func TestDataOfSecretsInOutputsIsRefusedUnlessAWarningIsEnough(t *testing.T) {
	d, kinds := definition(t, leaky), commonKinds(t, "")
	if g, problems := graph.Compile(&d.Spec, kinds); g != nil || len(problems) != 1 || problems[0].Path != "spec.schema.status.password" {
		t.Errorf("by default: %v", problems)
	}
	g, problems := graph.Compile(&d.Spec, kinds, graph.WithSecretOutputs(graph.WarnOfSecretOutputs))
	if g == nil || len(g.SecretOutputs) != 1 || g.SecretOutputs[0].Path != "spec.schema.status.password" {
		t.Fatalf("as a warning: %v", problems)
	}
	d.Spec.AllowSecretOutputs = []string{"status.password"}
	for _, rule := range []graph.SecretOutputs{"", graph.RefuseSecretOutputs, graph.WarnOfSecretOutputs} {
		if g, problems := graph.Compile(&d.Spec, kinds, graph.WithSecretOutputs(rule)); g == nil || len(g.SecretOutputs) != 0 {
			t.Errorf("allowed, with rule %q: %v", rule, problems)
		}
	}
}

// A definition that an earlier release accepted continues to serve with all of its kinds.
func TestADefinitionThatWasAcceptedBeforeContinuesWithItsOutputs(t *testing.T) {
	d := definition(t, leaky)
	g := graph.CompileAccepted(&d.Spec, commonKinds(t, ""))
	if g == nil || len(g.SecretOutputs) != 1 || strings.Contains(describeGraph(g), "missing: v1 ConfigMap") {
		t.Fatal("it does not serve, or not with all of its kinds")
	}
}

func TestEmbeddedGraphsListTheirOutputs(t *testing.T) {
	d := definition(t, leaky)
	g, problems := graph.CompileEmbedded(&d.Spec, commonKinds(t, ""), graph.Embedded{})
	if g == nil || len(g.SecretOutputs) != 1 {
		t.Errorf("%v", problems)
	}
}

func TestAllowedSecretOutputsAreBounded(t *testing.T) {
	d := definition(t, leaky)
	for range graph.MaxAllowedSecretOutputs + 1 {
		d.Spec.AllowSecretOutputs = append(d.Spec.AllowSecretOutputs, "status.password")
	}
	if _, problems := graph.Compile(&d.Spec, commonKinds(t, "")); !strings.Contains(problems.Err().Error(), "spec.allowSecretOutputs: has 65 paths, over the limit of 64 (MaxAllowedSecretOutputs)") {
		t.Error(problems.Err())
	}
}
