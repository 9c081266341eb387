package cli

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
)

func TestOnlyAValidGraphHasRoles(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"a Graph of kinds that only the cluster has": {"{nodes: [{id: a, patch: {apiVersion: example.com/v1, kind: Claim, metadata: {name: a}, status: {b: 1}}}]}", ""},
		"a field that is misspelled":                 {"{serviceAcountName: web, nodes: [{id: a, def: 1}]}", `unknown field "spec.serviceAcountName"`},
		"a node that is invalid":                     {"{nodes: [{id: a, patch: {apiVersion: v1, kind: Secret, metadata: {name: a}}}]}", "spec.nodes[0].patch: has no fields"},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "Graph"}}
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(tc.spec), &spec); err != nil {
			t.Fatal(err)
		}
		o.Object["spec"] = spec
		_, err := graphSpec(o)
		if got := (err == nil); got != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGraphsHaveRolesOfTheirOwn(t *testing.T) {
	const one = "apiVersion: kro.run/v1alpha1\nkind: Graph\nmetadata: {name: a}\n"
	const definition = "---\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: web}\n"
	if graphs, err := graphsIn([]*workspace.File{workspace.NewFile("a.yaml", one+"---\napiVersion: v1\nkind: ConfigMap\n")}); err != nil || len(graphs) != 1 {
		t.Errorf("%v, %v", graphs, err)
	}
	if _, err := graphsIn([]*workspace.File{workspace.NewFile("a.yaml", one+definition)}); err == nil || !strings.Contains(err.Error(), "ResourceGraphDefinition web") {
		t.Errorf("the roles of the definition are left out: %v", err)
	}
}
