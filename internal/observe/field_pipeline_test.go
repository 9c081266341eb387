package observe_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/observe"
)

// TestValuesThatFollowFromSecretsAreHidden has a patch that reads data of a Secret, directly and through the environment.
func TestValuesThatFollowFromSecretsAreHidden(t *testing.T) {
	object := func(kind, name, resource string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "data": map[string]any{"a": "aHVudGVyMg=="}}}
		o.SetName(name)
		o.SetAnnotations(map[string]string{"crossplane.io/composition-resource-name": resource})
		return o
	}
	composite, secret, config := object("Shop", "shop", ""), object("Secret", "login", "login"), object("ConfigMap", "config", "config")
	unstructured.RemoveNestedField(composite.Object, "data")
	config.Object["data"] = map[string]any{"a": "shown by the object itself"}
	login := trace.Read{Of: trace.Object{Kind: trace.Composed, Resource: "login"}, Field: "data.a", Value: "aHVudGVyMg=="}
	environment := trace.Read{Of: trace.Object{Kind: trace.Environment}, Field: "password", Value: "hunter2"}
	gone := trace.Read{Of: trace.Object{Kind: trace.Composed, Resource: "gone"}, Field: "data.a", Value: "hunter2"}
	for name, read := range map[string]trace.Read{"data of a Secret": login, "the environment": environment, "a resource that is gone": gone} {
		t.Run(name, func(t *testing.T) {
			state := trace.State{Environment: map[string]any{"password": "hunter2"}, Resources: map[string]map[string]any{"config": {"data": map[string]any{"a": "x-hunter2"}}}}
			steps := []trace.Step{{Name: "compose", Function: "f", After: state, Writes: func(to trace.Object, path []any) []trace.Write {
				if to.Kind == trace.Environment {
					return []trace.Write{{Place: "patches[0]", Reads: []trace.Read{login}, Value: "hunter2"}}
				}
				return []trace.Write{{Place: "patches[1]", Reads: []trace.Read{read}, Transforms: []trace.Transform{{Type: "string", Value: "x-hunter2"}}, Value: "x-hunter2"}}
			}}}
			e := observe.ExplainComposedField(config, "data.a", observe.ComposedField{Composite: composite, Children: []*unstructured.Unstructured{secret, config}, Steps: steps})
			all := e.Text(time.Time{}, 0) + string(e.JSON())
			if strings.Contains(all, "hunter2") || strings.Contains(all, "aHVudGVyMg") || !strings.Contains(all, "(hidden)") {
				t.Error(all)
			}
		})
	}
}
