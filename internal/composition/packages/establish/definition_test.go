package establish_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/packages/establish"
)

func TestTheDefinitionOfAKind(t *testing.T) {
	const spec = "spec: {group: s3.example.org, names: {kind: Bucket, plural: buckets}, scope: Namespaced, versions: [{name: v1}]}, status: {conditions: []}}"
	for _, tc := range []struct{ object, want string }{
		{
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: buckets.s3.example.org, labels: {a: b}, annotations: {c: d}}, " + spec,
			"{apiVersion: apiextensions.crossplane.io/v1alpha1, kind: ManagedResourceDefinition, metadata: {name: buckets.s3.example.org, labels: {a: b}, annotations: {c: d}}, " +
				"spec: {group: s3.example.org, names: {kind: Bucket, plural: buckets}, scope: Namespaced, versions: [{name: v1}]}}",
		},
		{"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {names: {kind: ProviderConfig}}}", ""},
		{"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {names: {kind: ClusterProviderConfigUsage}}}", ""},
		{"{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, " + spec, ""},
		{"{apiVersion: apiextensions.crossplane.io/v1alpha1, kind: ManagedResourceDefinition, " + spec, ""},
	} {
		o := parse(t, tc.object)
		got := ""
		if d := establish.ManagedDefinitionOf(o); d != nil {
			text, err := yaml.Marshal(d.Object)
			if err != nil {
				t.Fatal(err)
			}
			got = string(text)
		}
		if diff := cmp.Diff(normal(t, tc.want), normal(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.object, diff)
		}
		if diff := cmp.Diff(normal(t, tc.object), normal(t, string(marshalled(t, o.Object)))); diff != "" {
			t.Errorf("the object of the package has changed (-want +got):\n%s", diff)
		}
	}
}

func marshalled(t *testing.T, o any) []byte {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func normal(t *testing.T, text string) (out any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
