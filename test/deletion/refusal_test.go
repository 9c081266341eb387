package deletion

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestARefusalIsNotMistakenForADeletion lets a webhook refuse in the words in which the
// API server says that the object is gone, or that another has its name.
func TestARefusalIsNotMistakenForADeletion(t *testing.T) {
	for name, status := range map[string]metav1.Status{
		"in conflict": {Message: "somebody is at it", Code: http.StatusConflict, Reason: metav1.StatusReasonConflict},
		"not found":   {Message: "no such tenant", Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound},
		"gone":        {Message: "that was long ago", Code: http.StatusGone, Reason: metav1.StatusReasonGone},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			clear := refuseDeletions(t, s, suite.RefusingWebhook(t, status, nil), "guard.example.com")
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			awaitBlocked(t, s, "x-leaf", report.DeniedByWebhook, status.Message)
			clear()
			awaitNestGone(t, s)
			awaitGone(t, s, leaf(s), "x-below")
		})
	}
}

// keepFinalizers is a policy by which nobody may take the finalizers off a Low that
// is being deleted.
const keepFinalizers = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $ID-keep}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [$GROUP], apiVersions: ["*"], resources: [lows], operations: [UPDATE]}]}
  validations: [{expression: "has(object.metadata.finalizers) && size(object.metadata.finalizers) > 0", message: it is on record}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $ID-keep}
spec: {policyName: $ID-keep, validationActions: [Deny]}
`

// TestAFailedFinalizerRemovalIsReported refuses the last of all requests, which
// removes the finalizer.
func TestAFailedFinalizerRemovalIsReported(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	s.Apply(t, keepFinalizers)
	testkit.Poll(t, "taking off a finalizer is refused", func() bool {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := s.Resource(t, s.Kind("Low"), s.NS).Patch(t.Context(), "x", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitBlocked(t, s, "Low "+s.NS+"/x", report.DeniedByWebhook, "the finalizer cannot be removed")
	awaitGone(t, s, leaf(s), "x-below")
	if d := report.ReadDeletion(s.Get(t, s.Kind("Low"), s.NS, "x")); d.Percent != 100 || d.Remaining != 0 {
		t.Errorf("%d %% of it are gone, %d remain", d.Percent, d.Remaining)
	}
	s.AwaitEvent(t, "x", "DeletionBlocked", "the finalizer cannot be removed")
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		s.Delete(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind}, "", s.Name("keep"))
	}
	awaitNestGone(t, s)
}

// TestAConflictOfAWebhookIsReportedAndRetried refuses to release an instance in
// the words in which the API server says that a user has changed it. Nobody has, so
// no event brings the next pass.
func TestAConflictOfAWebhookIsReportedAndRetried(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	status := metav1.Status{Message: "somebody is at it", Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	hooks := s.Resource(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}, "")
	o := testkit.Parse(t, s.Expand(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: $ID-busy}
webhooks:
  - name: busy.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    rules: [{apiGroups: [$GROUP], apiVersions: ["*"], resources: [lows], operations: [UPDATE]}]
`))[0]
	o.Object["webhooks"].([]any)[0].(map[string]any)["clientConfig"] = suite.RefusingWebhook(t, status, nil)
	if _, err := hooks.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	testkit.Poll(t, "taking off a finalizer is refused", func() bool {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := s.Resource(t, s.Kind("Low"), s.NS).Patch(t.Context(), "x", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitBlocked(t, s, "Low "+s.NS+"/x", report.DeniedByWebhook, "the finalizer cannot be removed")
	if err := hooks.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitNestGone(t, s)
}
