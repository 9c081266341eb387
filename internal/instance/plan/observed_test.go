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
		"Nothing is known from before":        {"it may be anything", "", annotated, 2},
		"Nothing has changed":                 {"its status is about it", first, first, 1},
		"Its annotations have":                {"what is wanted is as it was", first, annotated, 1},
		"They have, and it has been observed": {"its status is about it", first, "{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2}}", 2},
		"Something else is wanted":            {"its status isn't about that", first, "{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 1}}", 2},
		"Something else was wanted meanwhile, and seen": {
			"its status is about that", first, "{metadata: {generation: 3}, spec: {replicas: 2}, status: {observedGeneration: 2}}", 3,
		},
		"Something else was wanted meanwhile, and not seen": {
			"its status is about what is wanted again", first, "{metadata: {generation: 3}, spec: {replicas: 2}, status: {observedGeneration: 1}}", 1,
		},
		"A composite is composed of more":  {"that is for its controllers to record", composed, recomposed, 4},
		"Something else refers to objects": {"nothing says that it is a record", cut.Replace(composed), cut.Replace(recomposed), 5},
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
