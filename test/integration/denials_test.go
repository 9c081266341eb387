package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// rules are an admission policy that refuses one value.
const rules = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $ID-rules}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [CREATE, UPDATE]}]}
  matchConditions: [{name: here, expression: "request.namespace == '$NS'"}]
  validations: [{expression: "!has(object.data) || !('value' in object.data) || object.data.value != 'ours'", message: that is against the rules}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $ID-rules}
spec: {policyName: $ID-rules, validationActions: [Deny]}
`

func TestWhatAdmissionRefusesIsToldAndTriedAgain(t *testing.T) {
	s := begin(t)
	s.Put(t, rules)
	testkit.Poll(t, "the value is refused", func() bool {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe"}, "data": map[string]any{"value": "ours"}}}
		_, err := s.Of(t, configMap, s.NS).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	refused := all(conditionIs("Ready", "False", "Rejected", "content: ", "that is against the rules"), conditionIs("ResourcesReady", "False", "Rejected"), field("ERROR", "status", "state"))
	s.Put(t, box)
	s.Put(t, boxInstance)
	s.Await(t, s.Kind("Box"), s.NS, "x", refused)
	s.AwaitEvent(t, "x", "Rejected", "that is against the rules")

	t.Log("another value is another matter")
	s.Put(t, boxInstance+"spec: {value: next}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("next", "status", "value")))

	t.Log("a change that is refused leaves what there is, and what is told of it")
	s.Put(t, boxInstance+"spec: {value: ours}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(refused, field("next", "status", "value")))

	t.Log("when the rules are others, it goes on by itself")
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		s.Delete(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind}, "", s.Name("rules"))
	}
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("ours", "status", "value")))
}
