package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
)

func TestLimitsAreNamed(t *testing.T) {
	maps := func(n int, data string) []*v1alpha1.Resource {
		out := make([]*v1alpha1.Resource, n)
		for i := range out {
			out[i] = &v1alpha1.Resource{
				ID:       fmt.Sprint("n", i),
				Template: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m%d"}, "data": {"x": %q}}`, i, data)},
			}
		}
		return out
	}
	nested := func(levels int) []*v1alpha1.Resource {
		return []*v1alpha1.Resource{
			{ID: "list", Template: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion": "example.org/v1", "kind": "Later", "metadata": {"name": "a"}, "spec": %s"${schema.metadata.name}"%s}`, strings.Repeat("[", levels-1), strings.Repeat("]", levels-1))}},
			{ID: "value", Value: runtime.RawExtension{Raw: []byte(strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels))}},
		}
	}
	cases := map[string]struct {
		resources []*v1alpha1.Resource
		want      string
	}{
		"As many levels as are allowed":    {nested(graph.MaxNesting), ""},
		"One level too many in a template": {nested(graph.MaxNesting + 1)[:1], "spec.resources[0].template: has objects and lists nested more than 256 levels deep (MaxNesting)"},
		"One level too many in a value":    {nested(graph.MaxNesting + 1)[1:], "spec.resources[0].value: has objects and lists nested more than 256 levels deep (MaxNesting)"},
		"As many resources as are allowed": {maps(graph.MaxResources, "x"), ""},
		"One resource too many":            {maps(graph.MaxResources+1, "x"), "spec.resources: has 501 resources, over the limit of 500 (MaxResources)"},
		"An expression that is too long":   {maps(1, "${'"+strings.Repeat("x", 20<<10)+"'}"), "Length"},
		"An expression that is too deep":   {maps(1, "${"+strings.Repeat("(", 70)+"'x'"+strings.Repeat(")", 70)+"}"), "Depth"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.DefinitionSpec{Schema: &v1alpha1.Schema{Kind: "Big", APIVersion: "v1"}, Resources: tc.resources}
			_, problems := graph.Compile(spec, commonKinds(t, ""))
			switch {
			case tc.want == "" && problems != nil:
				t.Error(problems.Err())
			case tc.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].String(), tc.want)):
				t.Errorf("want one problem with %q, got %v", tc.want, problems.Err())
			}
		})
	}
}
