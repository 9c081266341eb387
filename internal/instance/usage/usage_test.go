package usage_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

func read(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

const named = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u, namespace: prod, uid: u-1, generation: 3}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  by: {apiVersion: apps/v1, kind: Deployment, resourceRef: {name: using}}
`

func TestAMalformedUsageProtectsNothing(t *testing.T) {
	for name, text := range map[string]string{
		"another kind": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		"nonsense":     "{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {name: a}, spec: {of: 3}}",
	} {
		if u, ok := usage.Read(read(t, text)); ok {
			t.Errorf("%s is read as %+v", name, u)
		}
	}
	u, ok := usage.Read(read(t, "{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {name: a}}"))
	if !ok || u.Of.Is(object.Key{}) {
		t.Errorf("one that names nothing is of everything: %+v", u)
	}
}

func TestARefMatchesNamespacedAndClusterScopedKinds(t *testing.T) {
	u, _ := usage.Read(read(t, named))
	for key, want := range map[object.Key]bool{
		{Kind: "ConfigMap", Namespace: "prod", Name: "used"}:             true,
		{Kind: "ConfigMap", Name: "used"}:                                true,
		{Kind: "ConfigMap", Namespace: "dev", Name: "used"}:              false,
		{Kind: "ConfigMap", Namespace: "prod", Name: "other"}:            false,
		{Group: "x", Kind: "ConfigMap", Namespace: "prod", Name: "used"}: false,
	} {
		if got := u.Of.Is(key); got != want {
			t.Errorf("%s: %t", key, got)
		}
	}
}

func TestMessageDescribesTheMostUrgentUsage(t *testing.T) {
	u, _ := usage.Read(read(t, named))
	going := u
	going.Deleting, going.Key.Name = true, "a"
	alone := u
	alone.By, alone.Reason, alone.Key.Name = nil, "the ledger", "z"
	want := "in use: the ledger (Usage prod/z) and 2 more; it is deleted once the usage is gone"
	if got := usage.Message([]usage.Usage{going, u, alone}); got != want {
		t.Errorf("got %q", got)
	}
}
