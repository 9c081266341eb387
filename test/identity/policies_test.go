package identity

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// boxWith is suite.Box with more said of its content.
func boxWith(more string) string { return suite.Box[:len(suite.Box)-1] + "\n      " + more + "\n" }

// change merges a change into a ConfigMap as somebody else.
func without(kind string) check {
	return func(o *unstructured.Unstructured) error {
		if testkit.Condition(o, kind) != "" {
			return fmt.Errorf("has the condition %s", kind)
		}
		return nil
	}
}

func TestConflictsAreRefusedOnRequest(t *testing.T) {
	s := begin(t)
	s.Put(t, boxWith("conflicts: Refuse"))
	s.Put(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

	t.Log("what somebody else sets is left, and told with who it was")
	edit(t, s, "x-content", "meddler", "theirs")
	refused := conditionIs("Ready", "False", "FieldConflict", "data.value of ConfigMap "+s.NS+"/x-content is set by meddler", "conflicts: Force")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(refused, field("ERROR", "status", "state"), field("theirs", "status", "value")))
	s.AwaitEvent(t, "x", "FieldConflict", "meddler")

	t.Log("so it is when something else is wanted")
	s.Put(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(observed("Ready"), refused))
	if err := field("theirs", "data", "value")(s.Get(t, configMap, s.NS, "x-content")); err != nil {
		t.Error(err)
	}

	t.Log("when he gives it up, it is as it is wanted at once")
	s.PatchAs(t, "meddler", configMap, s.NS, "x-content", `{"data":{"value":null}}`)
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("next", "status", "value")))

	t.Log("and so it is when he comes to want the same")
	edit(t, s, "x-content", "meddler", "theirs")
	s.Await(t, s.Kind("Box"), s.NS, "x", refused)
	edit(t, s, "x-content", "meddler", "next")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

	t.Log("the definition may come to take it over")
	edit(t, s, "x-content", "meddler", "theirs")
	s.Await(t, s.Kind("Box"), s.NS, "x", refused)
	s.Put(t, suite.Box)
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("next", "status", "value")))
}

func TestAnObjectIsAdoptedWithoutTakingItsFieldsOver(t *testing.T) {
	s := begin(t)
	s.Put(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-content, namespace: $NS}\ndata: {value: theirs, more: theirs}\n")
	s.Put(t, boxWith("adopt: IfUnowned\n      conflicts: Refuse"))
	s.Put(t, suite.BoxInstance)
	s.Await(t, s.Kind("Box"), s.NS, "x", conditionIs("Ready", "False", "FieldConflict", "data.value", "is set by test"))
	if labels := s.Get(t, configMap, s.NS, "x-content").GetLabels(); len(labels) > 0 {
		t.Errorf("it is labelled: %v", labels)
	}
	s.PatchAs(t, "test", configMap, s.NS, "x-content", `{"data":{"value":null}}`)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Await(t, configMap, s.NS, "x-content", all(field("ours", "data", "value"), field("theirs", "data", "more")))
}

func TestDriftIsToldAndLeftOnRequest(t *testing.T) {
	s := begin(t)
	s.Put(t, boxWith("driftPolicy: Warn"))
	s.Put(t, suite.BoxInstance)
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, without("Drifted")))

	edit(t, s, "x-content", "meddler", "theirs")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("ACTIVE", "status", "state"), field("theirs", "status", "value"),
		conditionIs("Drifted", "True", "DriftDetected", "data.value of ConfigMap "+s.NS+"/x-content is set by meddler", "driftPolicy: Warn")))
	s.AwaitEvent(t, "x", "DriftDetected", "meddler")

	t.Log("another who changes it is named as well")
	edit(t, s, "x-content", "rival", "his")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("his", "status", "value"), conditionIs("Drifted", "True", "DriftDetected", "is set by rival")))
	s.AwaitEvent(t, "x", "DriftDetected", "rival")

	t.Log("when something else is wanted of the object, it is as wanted")
	s.Put(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("next", "status", "value"), without("Drifted")))
	s.AwaitEvent(t, "x", "DriftEnded")
}

const deployment = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-web}
spec:
  schema: {apiVersion: v1alpha1, kind: Web, group: $GROUP, spec: {image: 'string | default="one"', replicas: "integer | default=1"}, status: {image: "${server.spec.template.spec.containers[0].image}"}}
  resources:
    - id: server
      driftPolicy: Ignore
      driftPaths: [spec.replicas, 'metadata.annotations["example.com/note"]']
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: "${schema.metadata.name}", annotations: {example.com/note: ours, example.com/other: ours}}
        spec:
          replicas: ${schema.spec.replicas}
          selector: {matchLabels: {app: "${schema.metadata.name}"}}
          template: {metadata: {labels: {app: "${schema.metadata.name}"}}, spec: {containers: [{name: web, image: "${schema.spec.image}"}]}}
`

// TestAnAutoscalerMayHaveTheReplicas scales a Deployment as an autoscaler does.
func TestAnAutoscalerMayHaveTheReplicas(t *testing.T) {
	s := begin(t)
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	s.Put(t, deployment)
	web := "\napiVersion: $GROUP/v1alpha1\nkind: Web\nmetadata: {name: x, namespace: $NS}\n"
	s.Put(t, web)
	s.AwaitReady(t, s.Kind("Web"), s.NS, "x")
	replicas := func(want int64) check {
		return func(o *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); got != want {
				return fmt.Errorf("has %d replicas, not %d", got, want)
			}
			return nil
		}
	}
	note := func(key, want string) check {
		return func(o *unstructured.Unstructured) error {
			if got := o.GetAnnotations()["example.com/"+key]; got != want {
				return fmt.Errorf("%s is %q", key, got)
			}
			return nil
		}
	}
	t.Log("until somebody else has them, they are the instance's")
	s.Put(t, web+"spec: {replicas: 2}\n")
	s.Await(t, kind, s.NS, "x", replicas(2))
	if _, err := s.Of(t, kind, s.NS).Patch(t.Context(), "x", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale"); err != nil {
		t.Fatal(err)
	}
	s.PatchAs(t, "autoscaler", kind, s.NS, "x", `{"metadata":{"annotations":{"example.com/note":"his","example.com/other":"his"}}}`)
	t.Log("what isn't named is corrected, and takes nothing of the rest back")
	s.Await(t, kind, s.NS, "x", all(note("other", "ours"), note("note", "his"), replicas(5)))
	t.Log("nor does another image, or another number of replicas")
	s.Put(t, web+"spec: {replicas: 3, image: two}\n")
	s.Await(t, s.Kind("Web"), s.NS, "x", all(testkit.IsReady, field("two", "status", "image")))
	s.Await(t, kind, s.NS, "x", all(replicas(5), note("note", "his"), note("other", "ours")))
}

func TestPoliciesHoldForItemsOfCollections(t *testing.T) {
	s := begin(t)
	s.Put(t, strings.NewReplacer("resources:\n    - id: content\n", "resources:\n    - id: content\n      driftPolicy: Ignore\n      forEach: [{part: \"${['a', 'b']}\"}]\n",
		"${schema.metadata.name}-content", "${schema.metadata.name}-${part}", "${content.data.value}", "${content[0].data.value}").Replace(suite.Box))
	s.Put(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	edit(t, s, "x-a", "meddler", "theirs")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("theirs", "status", "value")))
	s.Put(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, configMap, s.NS, "x-b", field("next", "data", "value"))
	s.Await(t, configMap, s.NS, "x-a", func(o *unstructured.Unstructured) error {
		if o.GetAnnotations()["espalier.dev/applied"] == "" {
			return errors.New("isn't ours")
		}
		return field("theirs", "data", "value")(o)
	})
}
