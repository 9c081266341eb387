package security

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAClaimTakesOverOnlyWhatIsItsOwn has a tenant name composites that no claim refers to.
func TestAClaimTakesOverOnlyWhatIsItsOwn(t *testing.T) {
	s := suite.New(t)
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: [$GROUP], resources: [tops], verbs: [create, get, patch]}]`)
	s.Apply(t, suite.XRD("v1", "XTop", "size: {type: string}", "", "claimNames: {kind: Top, plural: tops}")+"---"+
		suite.Composition("top", "XTop", suite.AutoReady))
	s.Await(t, schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}, "", s.Expand("xtops.$GROUP"), suite.HasCondition("Offered", "True", "WatchingCompositeResourceClaim"))
	claim := func(name, composite string) {
		t.Helper()
		if err := apply(t, s, tenant, `
apiVersion: $GROUP/v1alpha1
kind: Top
metadata: {name: `+name+`, namespace: $NS}
spec: {size: taken, resourceRef: {apiVersion: $GROUP/v1alpha1, kind: XTop, name: $ID-`+composite+`}}
`); err != nil {
			t.Fatal(err)
		}
	}
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: XTop
metadata: {name: $ID-production}
spec: {size: large}
---
apiVersion: $GROUP/v1alpha1
kind: XTop
metadata: {name: $ID-offered, annotations: {espalier.dev/claimable: "$NS/entitled"}}
spec: {size: large}
`)
	claim("thief", "production")
	s.Await(t, s.Kind("Top"), s.NS, "thief", suite.HasCondition("Synced", "False", "ReconcileError", "already exists", "espalier.dev/claimable="+s.NS+"/thief"))
	claim("stranger", "offered")
	s.Await(t, s.Kind("Top"), s.NS, "stranger", suite.HasCondition("Synced", "False", "ReconcileError", "already exists"))
	for _, name := range []string{"production", "offered"} {
		if size, _, _ := unstructured.NestedString(s.Get(t, s.Kind("XTop"), "", s.Name(name)).Object, "spec", "size"); size != "large" {
			t.Errorf("a claim has changed the composite %s", name)
		}
	}
	other := testkit.Namespace(t, s.Config)
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: Top
metadata: {name: merger, namespace: `+other+`}
spec: {size: large, resourceRef: {apiVersion: $GROUP/v1alpha1, kind: XTop, name: $ID-bound}}
`)
	s.Await(t, s.Kind("XTop"), "", s.Name("bound"), suite.HasField("merger", "spec", "claimRef", "name"))
	claim("curious", "bound")
	refused := s.Await(t, s.Kind("Top"), s.NS, "curious", suite.HasCondition("Synced", "False", "ReconcileError", "belongs to an object of another namespace"))
	for _, name := range []string{"merger", other} {
		if text, err := refused.MarshalJSON(); err != nil || strings.Contains(string(text), name) {
			t.Errorf("the claim names %s of another namespace: %s, %v", name, text, err)
		}
	}

	claim("entitled", "offered")
	s.Await(t, s.Kind("XTop"), "", s.Name("offered"), suite.HasField("entitled", "spec", "claimRef", "name"))
	s.Delete(t, s.Kind("Top"), s.NS, "thief")
	s.AwaitGone(t, s.Kind("Top"), s.NS, "thief")
	if s.Get(t, s.Kind("XTop"), "", s.Name("production")) == nil {
		t.Error("the composite was deleted with a claim that was not its")
	}
}
