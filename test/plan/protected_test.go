package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var usageKind = schema.GroupVersionKind{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "Usage"}

// TestAPlanOfAnItemInUse has objects that are no longer desired. A Usage keeps one of them.
func TestAPlanOfAnItemInUse(t *testing.T) {
	s := suite.NewSerial(t)
	file := func(parts string) string {
		return strings.ReplaceAll(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-stores}
spec:
  schema: {apiVersion: v1alpha1, group: $GROUP, kind: Store, spec: {parts: boolean}}
  resources:
  - id: ledger
    includeWhen: ["${schema.spec.parts}"]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-ledger"}, data: {a: b}}
  - id: cache
    includeWhen: ["${schema.spec.parts}"]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-cache"}, data: {a: b}}
---
apiVersion: $GROUP/v1alpha1
kind: Store
metadata: {namespace: $NS, name: shop}
spec: {parts: PARTS}
`, "PARTS", parts)
	}
	applyText(t, s, file("true"))
	awaitData(t, s, "shop-ledger", "a", "b")
	awaitData(t, s, "shop-cache", "a", "b")
	applyText(t, s, `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  reason: the billing reads it
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: shop-ledger}}
`)
	s.AwaitReady(t, usageKind, s.NS, "uses")
	planned := want(t, s, file("false"),
		"Change Store NS/shop; spec.parts: true → false",
		"Delete ConfigMap NS/shop-cache",
		"problem Protected",
	)
	const says = "ConfigMap NS/shop-ledger is no longer desired, and stays: "
	if message := planned.Problems[0].Message; !strings.HasPrefix(message, strings.Replace(says, "NS", s.NS, 1)) || !strings.Contains(message, "the billing reads it") {
		t.Errorf("the problem is %q", message)
	}
}
