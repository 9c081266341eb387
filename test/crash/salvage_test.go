package crash

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// earlyDefinition uses a kind that is created later, with another field than the template sets.
var earlyDefinition = suite.Graph("Early", `spec: {value: string | default=one}, status: {value: "${sibling.data.a}"}`, `
    - id: late
      template: {apiVersion: $GROUP/v1alpha1, kind: Late, metadata: {name: late}, spec: {colour: red}}
    - id: sibling
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: sibling}, data: {a: "${schema.spec.value}"}}
`)

var laterKind = suite.CRDText("$GROUP", "v1alpha1", "Late", "{type: object, properties: {spec: {type: object, properties: {color: {type: string}}}}}")

func TestNodesOfAnIncompatibleKindBlockNoOtherNodesAfterARestart(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	id, _, _ := strings.Cut(group, ".")
	kind, name := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Early"}, id+"-early"
	put := func(text string) {
		t.Helper()
		w.Apply(t, strings.NewReplacer("$GROUP", group, "$NS", ns, "$ID", id).Replace(text))
	}
	definition := schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
	shows := func(value string) {
		t.Helper()
		w.Await(t, kind, ns, "x", func(o *unstructured.Unstructured) error {
			got, _, _ := unstructured.NestedString(o.Object, "status", "value")
			if reason := testkit.ConditionReason(o, "Ready"); got != value || reason != "WaitingForKind" {
				return fmt.Errorf("it shows %q and is %s", got, reason)
			}
			return nil
		})
	}
	const instance = "\napiVersion: $GROUP/v1alpha1\nkind: Early\nmetadata: {name: x, namespace: $NS}\nspec: {value: %s}\n"

	stop := steps.Run(t, config)
	put(earlyDefinition)
	put(fmt.Sprintf(instance, "one"))
	shows("one")
	put(laterKind)
	w.Await(t, definition, "", name, func(o *unstructured.Unstructured) error {
		if text := testkit.ConditionMessage(o, "GraphAccepted"); testkit.ConditionStatus(o, "GraphAccepted") != "False" || !strings.Contains(text, `there is no field "colour" here; did you mean "color"?`) {
			return fmt.Errorf("GraphAccepted says %q", text)
		}
		return nil
	})
	stop()

	stop = steps.Run(t, config)
	defer stop()
	put(fmt.Sprintf(instance, "two"))
	shows("two")
	w.Delete(t, kind, ns, "x")
	w.AwaitGone(t, kind, ns, "x")
	w.Delete(t, definition, "", name)
	w.AwaitGone(t, definition, "", name)
}
