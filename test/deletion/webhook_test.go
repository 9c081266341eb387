package deletion

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// webhook serves an admission webhook that refuses everything, and returns how
// the API server reaches it.
func webhook(t *testing.T, message string) map[string]any {
	t.Helper()
	return suite.RefusingWebhook(t, metav1.Status{Message: message, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, nil)
}

// refuseDeletions configures a webhook for deletions of the leaf, and waits until the API server
// calls it.
func refuseDeletions(t *testing.T, s suite.Suite, client map[string]any, name string) (clear func()) {
	t.Helper()
	hooks := s.Resource(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}, "")
	o := testkit.Parse(t, s.Expand(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: $ID-guard}
webhooks:
  - name: `+name+`
    admissionReviewVersions: [v1]
    sideEffects: None
    timeoutSeconds: 5
    rules: [{apiGroups: [leaf.$GROUP], apiVersions: ["*"], resources: ["*"], operations: [DELETE]}]
`))[0]
	list := o.Object["webhooks"].([]any)
	list[0].(map[string]any)["clientConfig"] = client
	if _, err := hooks.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	awaitRefusal(t, s)
	return func() {
		if err := hooks.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// denyByPolicy creates an admission policy that denies deletions of the leaf.
func denyByPolicy(t *testing.T, s suite.Suite) (clear func()) {
	t.Helper()
	s.Apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $ID-guard}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [leaf.$GROUP], apiVersions: ["*"], resources: ["*"], operations: [DELETE]}]}
  validations: [{expression: "false", message: not on a Friday}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $ID-guard}
spec: {policyName: $ID-guard, validationActions: [Deny]}
`)
	awaitRefusal(t, s)
	return func() {
		s.Delete(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"}, "", s.Name("guard"))
		s.Delete(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"}, "", s.Name("guard"))
	}
}

// awaitRefusal waits until the API server refuses the deletion of a leaf: it reads such
// configurations with a delay, for which there is no watch.
func awaitRefusal(t *testing.T, s suite.Suite) {
	t.Helper()
	leaves := s.Resource(t, leaf(s), s.NS)
	testkit.Poll(t, "a deletion is refused", func() bool {
		err := leaves.Delete(t.Context(), "x-leaf", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
}
