package graph_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestCertainChildKinds(t *testing.T) {
	const (
		config = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`
		secret = `{apiVersion: v1, kind: Secret, metadata: {name: "b-${a.metadata.name}"}}`
	)
	cases := map[string]struct {
		resources string
		scope     string
		want      string // "none" if they differ between instances
	}{
		"children of two kinds":                    {resources: "[{id: a, template: " + config + "}, {id: b, template: " + secret + "}]", want: "ConfigMap Secret"},
		"a child that a condition leaves out":      {resources: `[{id: a, template: ` + config + `}, {id: b, includeWhen: ["${schema.spec.enabled}"], template: {apiVersion: v1, kind: Secret, metadata: {name: b}}}]`, want: "ConfigMap"},
		"a child that depends on such a child":     {resources: `[{id: a, includeWhen: ["${schema.spec.enabled}"], template: ` + config + `}, {id: b, template: ` + secret + `}]`, want: ""},
		"another child of its kind is certain":     {resources: `[{id: a, includeWhen: ["${schema.spec.enabled}"], template: ` + config + `}, {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}}]`, want: "ConfigMap"},
		"a collection may be empty":                {resources: `[{id: a, forEach: [{x: "${schema.spec.names}"}], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${x}"}}}]`, want: "ConfigMap"},
		"the namespace of the instance":            {resources: `[{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: "${schema.metadata.namespace}"}}}]`, want: "ConfigMap"},
		"another namespace":                        {resources: `[{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}}]`, want: "none"},
		"a namespace that the instance names":      {resources: `[{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: "${schema.spec.enabled ? 'a' : 'b'}"}}}]`, want: "none"},
		"external objects are no children":         {resources: `[{id: a, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}}, {id: b, template: ` + secret + `}]`, want: "Secret"},
		"cluster-scoped instances":                 {resources: `[{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}}}]`, scope: ", scope: Cluster", want: "none"},
		"a kind that no server serves at the time": {resources: `[{id: a, template: {apiVersion: example.org/v1, kind: Unknown, metadata: {name: a}}}]`, want: "none"},
	}
	kinds := graph.Kinds{
		{Version: "v1", Kind: "ConfigMap"}: object.KindInfo{Namespaced: true},
		{Version: "v1", Kind: "Secret"}:    object.KindInfo{Namespaced: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := definition(t, "\nspec:\n  schema: {kind: Web, apiVersion: v1, spec: {enabled: boolean, names: '[]string'}"+tc.scope+"}\n  resources: "+tc.resources+"\n")
			found, certain := compiled(t, d, kinds).CertainChildKinds()
			got := "none"
			if certain {
				got = strings.Join(texts(found), " ")
			}
			if got != tc.want {
				t.Errorf("got %q, not %q", got, tc.want)
			}
		})
	}
}

func texts(kinds []schema.GroupKind) (out []string) {
	for _, gk := range kinds {
		out = append(out, gk.String())
	}
	return out
}
