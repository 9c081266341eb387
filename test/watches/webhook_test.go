package watches

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// converted has a leaf in a version that a webhook converts to.
var converted = suite.Graph("Converted", "", `
    - id: subnet
      template: {apiVersion: leaf.$GROUP/v2, kind: Subnet, metadata: {name: "${schema.metadata.name}-v2"}, spec: {cidr: 10.1.0.0/16}}
    - id: note
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-converted"}, data: {a: b}}
`)

// TestAFailingConversionBlocksOneVersionOnly has a kind whose second version cannot be read, since
// its conversion webhook does not respond.
func TestAFailingConversionBlocksOneVersionOnly(t *testing.T) {
	p, _ := start(t)
	ctx := t.Context()
	noError(t, "instances of the stored version", p.create(ctx, t, "a"))
	const stored = "    - name: v1alpha1\n"
	second := strings.Replace(leafKind, stored, "    - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"+stored, 1)
	broken := second + `  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {url: "https://127.0.0.1:1/convert"}
`
	noError(t, "a second version", p.apply(ctx, t, p.client.Resource(crds), broken))
	noError(t, "a definition", p.apply(ctx, t, p.client.Resource(definitions), converted))
	noError(t, "a definition", await(ctx, p.client.Resource(definitions), p.expand("$ID-converted"), testkit.IsReady))
	instances := p.client.Resource(schema.GroupVersionResource{Group: p.group, Version: "v1alpha1", Resource: "converteds"}).Namespace(p.ns)
	noError(t, "an instance", p.apply(ctx, t, instances, "apiVersion: $GROUP/v1alpha1\nkind: Converted\nmetadata: {name: b, namespace: $NS}\n"))
	noError(t, "its other node", await(ctx, p.notes(), "b-converted", exists))
	noError(t, "the reported reason", await(ctx, instances, "b", reason("Unavailable", "subnet", "conversion webhook")))
	for _, id := range []string{"one", "two"} {
		noError(t, "a change in the stored version", p.setStatus(ctx, "a", id))
	}

	t.Log("the webhook is no longer needed")
	none := `[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]`
	_, err := p.client.Resource(crds).Patch(ctx, p.leafName(), types.JSONPatchType, []byte(none), metav1.PatchOptions{})
	noError(t, "repair", err)
	noError(t, "ready without the webhook", await(ctx, instances, "b", testkit.IsReady))
	noError(t, "a change in the stored version", p.setStatus(ctx, "a", "three"))
}
