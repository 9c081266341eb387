package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestAsObserved(t *testing.T) {
	const (
		first      = "{metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, readyReplicas: 2}}"
		annotated  = "{metadata: {generation: 2, annotations: {a: b}}, spec: {replicas: 2}, status: {observedGeneration: 1, readyReplicas: 2}}"
		composed   = "{metadata: {generation: 4, finalizers: [composite.apiextensions.crossplane.io]}, spec: {size: 1, crossplane: {resourceRefs: [{name: a}]}}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 4}]}}"
		recomposed = "{metadata: {generation: 5, finalizers: [composite.apiextensions.crossplane.io]}, spec: {size: 1, crossplane: {resourceRefs: [{name: a}, {name: b}]}}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 4}]}}"
	)
	cut := strings.NewReplacer(", finalizers: [composite.apiextensions.crossplane.io]", "")
	cases := map[string]struct {
		reason      string
		before, now string
		want        int64
	}{
		"There is no earlier state":                                     {"the spec may be another", "", annotated, 2},
		"Nothing has changed":                                           {"the status is of this spec", first, first, 1},
		"Its annotations have changed":                                  {"the desired state is unchanged", first, annotated, 1},
		"Its annotations have changed, and the generation was observed": {"the status is of this spec", first, "{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2}}", 2},
		"The desired state has changed":                                 {"its status is of the former spec", first, "{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 1}}", 2},
		"The spec has changed to and fro, and the status is of the former": {
			"the status is of another spec", first, "{metadata: {generation: 3}, spec: {replicas: 2}, status: {observedGeneration: 2}}", 3,
		},
		"The spec has changed to and fro, and the status is of the first": {
			"the status is of the same spec", first, "{metadata: {generation: 3}, spec: {replicas: 2}, status: {observedGeneration: 1}}", 1,
		},
		"A composite has more resourceRefs": {"its controller records them", composed, recomposed, 4},
		"Other references have changed":     {"they may be desired state", cut.Replace(composed), cut.Replace(recomposed), 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := parse(t, tc.now)
			unchanged := now.DeepCopy()
			var before *unstructured.Unstructured
			if tc.before != "" {
				before = parse(t, tc.before)
			}
			got := plan.AsObserved(now, before)
			if got.GetGeneration() != tc.want {
				t.Errorf("%s: it is at generation %d, not %d", tc.reason, got.GetGeneration(), tc.want)
			}
			if diff := cmp.Diff(unchanged, now); diff != "" {
				t.Errorf("the object has been changed: %s", diff)
			}
		})
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}
