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

// change merges a change into a ConfigMap as another client.
func without(kind string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		if testkit.ConditionStatus(o, kind) != "" {
			return fmt.Errorf("has the condition %s", kind)
		}
		return nil
	}
}

func TestConflictsAreRefusedOnRequest(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxWith("conflicts: Refuse"))
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

	t.Log("what another client sets is left, and told with who it was")
	edit(t, s, "x-content", "meddler", "theirs")
	refused := suite.HasCondition("Ready", "False", "FieldConflict", "data.value of ConfigMap "+s.NS+"/x-content is set by meddler", "conflicts: Force")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(refused, suite.HasField("ERROR", "status", "state"), suite.HasField("theirs", "status", "value")))
	s.AwaitEvent(t, "x", "FieldConflict", "meddler")

	t.Log("another desired value is a conflict as well")
	s.Apply(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(observed("Ready"), refused))
	if err := suite.HasField("theirs", "data", "value")(s.Get(t, suite.ConfigMap, s.NS, "x-content")); err != nil {
		t.Error(err)
	}

	t.Log("the conflict ends when the other manager removes the field")
	s.PatchAs(t, "meddler", suite.ConfigMap, s.NS, "x-content", `{"data":{"value":null}}`)
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("next", "status", "value")))

	t.Log("the conflict also ends when the other manager sets the same value")
	edit(t, s, "x-content", "meddler", "theirs")
	s.Await(t, s.Kind("Box"), s.NS, "x", refused)
	edit(t, s, "x-content", "meddler", "next")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

	t.Log("the conflict ends when the definition takes the field over")
	edit(t, s, "x-content", "meddler", "theirs")
	s.Await(t, s.Kind("Box"), s.NS, "x", refused)
	s.Apply(t, suite.Box)
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("next", "status", "value")))
}

func TestAnObjectIsAdoptedWithoutTakingItsFieldsOver(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-content, namespace: $NS}\ndata: {value: theirs, more: theirs}\n")
	s.Apply(t, boxWith("adopt: IfUnowned\n      conflicts: Refuse"))
	s.Apply(t, suite.BoxInstance)
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.HasCondition("Ready", "False", "FieldConflict", "data.value", "is set by test"))
	if labels := s.Get(t, suite.ConfigMap, s.NS, "x-content").GetLabels(); len(labels) > 0 {
		t.Errorf("it is labelled: %v", labels)
	}
	s.PatchAs(t, "test", suite.ConfigMap, s.NS, "x-content", `{"data":{"value":null}}`)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("ours", "data", "value"), suite.HasField("theirs", "data", "more")))
}

func TestDriftIsOnlyReportedOnRequest(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxWith("driftPolicy: Warn"))
	s.Apply(t, suite.BoxInstance)
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, without("Drifted")))

	edit(t, s, "x-content", "meddler", "theirs")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("ACTIVE", "status", "state"), suite.HasField("theirs", "status", "value"),
		suite.HasCondition("Drifted", "True", "DriftDetected", "data.value of ConfigMap "+s.NS+"/x-content is set by meddler", "driftPolicy: Warn")))
	s.AwaitEvent(t, "x", "DriftDetected", "meddler")

	t.Log("another manager that changes it is named as well")
	edit(t, s, "x-content", "rival", "another")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("another", "status", "value"), suite.HasCondition("Drifted", "True", "DriftDetected", "is set by rival")))
	s.AwaitEvent(t, "x", "DriftDetected", "rival")

	t.Log("a new desired value is applied")
	s.Apply(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("next", "status", "value"), without("Drifted")))
	s.AwaitEvent(t, "x", "DriftEnded")
}

var deployment = suite.Graph("Web", `spec: {image: 'string | default="one"', replicas: "integer | default=1"}, status: {image: "${server.spec.template.spec.containers[0].image}"}`, `
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
`)

// TestAnAutoscalerCanOwnTheReplicas scales a Deployment as an autoscaler does.
func TestAnAutoscalerCanOwnTheReplicas(t *testing.T) {
	s := suite.New(t)
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	s.Apply(t, deployment)
	web := "\napiVersion: $GROUP/v1alpha1\nkind: Web\nmetadata: {name: x, namespace: $NS}\n"
	s.Apply(t, web)
	s.AwaitReady(t, s.Kind("Web"), s.NS, "x")
	replicas := func(want int64) suite.Check {
		return func(o *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); got != want {
				return fmt.Errorf("has %d replicas, not %d", got, want)
			}
			return nil
		}
	}
	note := func(key, want string) suite.Check {
		return func(o *unstructured.Unstructured) error {
			if got := o.GetAnnotations()["example.com/"+key]; got != want {
				return fmt.Errorf("%s is %q", key, got)
			}
			return nil
		}
	}
	t.Log("until another client has them, they are the instance's")
	s.Apply(t, web+"spec: {replicas: 2}\n")
	s.Await(t, kind, s.NS, "x", replicas(2))
	if _, err := s.Resource(t, kind, s.NS).Patch(t.Context(), "x", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale"); err != nil {
		t.Fatal(err)
	}
	s.PatchAs(t, "autoscaler", kind, s.NS, "x", `{"metadata":{"annotations":{"example.com/note":"theirs","example.com/other":"theirs"}}}`)
	t.Log("other fields are corrected, and the excluded ones stay")
	s.Await(t, kind, s.NS, "x", suite.All(note("other", "ours"), note("note", "theirs"), replicas(5)))
	t.Log("they also stay after other changes of the spec")
	s.Apply(t, web+"spec: {replicas: 3, image: two}\n")
	s.Await(t, s.Kind("Web"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("two", "status", "image")))
	s.Await(t, kind, s.NS, "x", suite.All(replicas(5), note("note", "theirs"), note("other", "ours")))
}

func TestPoliciesHoldForItemsOfCollections(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, strings.NewReplacer("resources:\n    - id: content\n", "resources:\n    - id: content\n      driftPolicy: Ignore\n      forEach: [{part: \"${['a', 'b']}\"}]\n",
		"${schema.metadata.name}-content", "${schema.metadata.name}-${part}", "${content.data.value}", "${content[0].data.value}").Replace(suite.Box))
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	edit(t, s, "x-a", "meddler", "theirs")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("theirs", "status", "value")))
	s.Apply(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, suite.ConfigMap, s.NS, "x-b", suite.HasField("next", "data", "value"))
	s.Await(t, suite.ConfigMap, s.NS, "x-a", func(o *unstructured.Unstructured) error {
		if o.GetAnnotations()["espalier.dev/applied"] == "" {
			return errors.New("isn't ours")
		}
		return suite.HasField("theirs", "data", "value")(o)
	})
}

// TestExternalFieldsBelongToWhoeverSetsThem sets a field of an object before it is adopted, and of one that is created.
func TestExternalFieldsBelongToWhoeverSetsThem(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, strings.NewReplacer("data: {value:", "data: {more: \"${schema.spec.value}\", value:").Replace(boxWith("adopt: IfUnowned\n      externalFields: [data.value]")))
	s.AwaitDefinitions(t, "box")
	data := func(value, more string) suite.Check {
		return suite.All(suite.HasField(value, "data", "value"), suite.HasField(more, "data", "more"))
	}
	instance := func(name, value string) string {
		return strings.Replace(suite.BoxInstance, "name: x", "name: "+name, 1) + "spec: {value: " + value + "}\n"
	}

	t.Log("a new object has the field of the template until another manager changes it")
	s.Apply(t, instance("new", "one"))
	s.Await(t, suite.ConfigMap, s.NS, "new-content", data("one", "one"))
	s.Apply(t, instance("new", "two"))
	s.Await(t, suite.ConfigMap, s.NS, "new-content", data("two", "two"))
	edit(t, s, "new-content", "meddler", "theirs")
	s.Apply(t, instance("new", "three"))
	s.Await(t, suite.ConfigMap, s.NS, "new-content", data("theirs", "three"))

	t.Log("an adopted object keeps it")
	s.Apply(t, "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: old-content, namespace: $NS}\ndata: {value: theirs}\n")
	s.Apply(t, instance("old", "one"))
	s.Await(t, suite.ConfigMap, s.NS, "old-content", data("theirs", "one"))
	s.AwaitReady(t, s.Kind("Box"), s.NS, "old")
	s.Apply(t, instance("old", "two"))
	s.Await(t, suite.ConfigMap, s.NS, "old-content", data("theirs", "two"))
	s.AwaitReady(t, s.Kind("Box"), s.NS, "old")
}
