package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

// TestAPlanOfARecreatedObject changes a field that is immutable.
func TestAPlanOfARecreatedObject(t *testing.T) {
	s := suite.NewSerial(t)
	file := func(label string) string {
		return strings.ReplaceAll(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-webs}
spec:
  schema: {apiVersion: v1alpha1, group: $GROUP, kind: Web, spec: {image: string}}
  resources:
  - id: web
    onConflict: Recreate
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.metadata.name}"}
      spec: {selector: {matchLabels: {app: LABEL}}, template: {metadata: {labels: {app: LABEL}}, spec: {containers: [{name: web, image: "${schema.spec.image}"}]}}}
  - id: label
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {label: "${web.spec.selector.matchLabels.app}"}}
---
apiVersion: $GROUP/v1alpha1
kind: Web
metadata: {namespace: $NS, name: shop}
spec: {image: nginx}
`, "LABEL", label)
	}
	want(t, s, file("one"), "Create ResourceGraphDefinition ID-webs", "Create Web NS/shop", "Create Deployment NS/shop", "Create ConfigMap NS/shop")
	applyText(t, s, file("one"))
	awaitData(t, s, "shop", "label", "one")
	want(t, s, file("two"),
		`Change ResourceGraphDefinition ID-webs; spec.resources[id=web].template.spec.selector.matchLabels.app: "one" → "two"; `+
			`spec.resources[id=web].template.spec.template.metadata.labels.app: "one" → "two"`,
		"Keep Web NS/shop",
		`Replace Deployment NS/shop; spec.selector.matchLabels.app: "one" → "two"; spec.template.metadata.labels.app: "one" → "two"`,
		`Change ConfigMap NS/shop; data.label: "one" → "two"`,
	)
	if s.Get(t, deployment, s.NS, "shop").GetDeletionTimestamp() != nil {
		t.Error("the plan has deleted the Deployment")
	}
}
