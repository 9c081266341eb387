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

func TestAUsageIsOfObjectsOfItsScope(t *testing.T) {
	const cluster = "{apiVersion: protection.crossplane.io/v1beta1, kind: ClusterUsage, metadata: {name: u}, spec: {of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}}}"
	const other = "{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {name: u, namespace: prod}, spec: {of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used, namespace: dev}}}}"
	own := object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "used"}
	clusterScoped := object.Key{Kind: "ConfigMap", Name: "used"}
	foreign := object.Key{Kind: "ConfigMap", Namespace: "dev", Name: "used"}
	for _, tc := range []struct {
		reason, text string
		key          object.Key
		want         bool
	}{
		{"it is in the namespace", named, own, true},
		{"a cluster-scoped object needs a ClusterUsage", named, clusterScoped, false},
		{"it is in another namespace", named, foreign, false},
		{"it has another name", named, object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "other"}, false},
		{"it is of another group", named, object.Key{Group: "x", Kind: "ConfigMap", Namespace: "prod", Name: "used"}, false},
		{"the usage names another namespace", other, foreign, false},
		{"the usage names another namespace than its own", other, own, false},
		{"a ClusterUsage is of cluster-scoped objects", cluster, clusterScoped, true},
		{"and of no others", cluster, own, false},
	} {
		u, _ := usage.Read(read(t, tc.text))
		if got := u.Uses(tc.key); got != tc.want {
			t.Errorf("%s: Uses(%s) is %t", tc.reason, tc.key, got)
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
	want = "in use: the ledger (Usage prod/z) and 2 more; delete it again once the usage is gone"
	if got := usage.Refusal([]usage.Usage{going, u, alone}); got != want {
		t.Errorf("got %q", got)
	}
}
