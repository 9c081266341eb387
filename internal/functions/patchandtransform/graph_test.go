package patchandtransform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func graphOf(patches []patch, base map[string]any) (GraphResource, string) {
	in := &Input{Resources: []template{{Name: "one", Base: base, Patches: patches}}}
	got, lost := in.ToGraph(GraphOptions{
		Spec: &apiextensionsv1.JSONSchemaProps{Type: typeObject, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"on": {Type: typeBoolean}, "name": {Type: typeString},
		}},
		ReservedIDs: func(string) bool { return false },
	})
	return got.Resources[0], fmt.Sprint(lost.Err())
}

// TestDefaultReadinessOfKindsWithoutConditions has kinds of which an expression that reads a condition Ready is invalid, or never true.
func TestDefaultReadinessOfKindsWithoutConditions(t *testing.T) {
	for kind, reads := range map[string]bool{
		"v1 ConfigMap": false, "v1 Pod": true, "v1 Node": true, "apps/v1 Deployment": false, "networking.k8s.io/v1 Ingress": false,
		"s3.aws.upbound.io/v1 Bucket": true, "cluster.x-k8s.io/v1 Cluster": true,
	} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		got, lost := graphOf(nil, map[string]any{"apiVersion": apiVersion, "kind": name})
		if reads != (len(got.ReadyWhen) == 1) || reads != !strings.Contains(lost, "resources[0].readinessChecks: is missing, and no "+name+" has a condition Ready") {
			t.Errorf("%s: readyWhen is %q, and lost is %s", kind, got.ReadyWhen, lost)
		}
	}
}

// TestAMatchOfAnotherTypeIsLost has a patch that fails in the function, and would be an invalid expression.
func TestAMatchOfAnotherTypeIsLost(t *testing.T) {
	literal := "x"
	matching := func(field string) []patch {
		return []patch{{FromFieldPath: field, ToFieldPath: "data.a", Transforms: []transform{{Type: "match", Match: &match{
			Patterns: []pattern{{Type: "literal", Literal: &literal, Result: "y"}}, FallbackValue: "z",
		}}}}}
	}
	pod := func() map[string]any { return map[string]any{"apiVersion": "v1", "kind": "Pod"} }
	if _, lost := graphOf(matching("spec.on"), pod()); !strings.Contains(lost, "match is of strings, and the value is of type boolean") {
		t.Errorf("lost is %q", lost)
	}
	got, lost := graphOf(matching("spec.name"), pod())
	if diff := cmp.Diff("${schema.spec.?name.optMap(v, (v == \"x\" ? \"y\" : \"z\")).optMap(v, {\"a\": v})}", got.Template["data"]); diff != "" || lost != "<nil>" {
		t.Errorf("(-want +got):\n%s\n%s", diff, lost)
	}
}
