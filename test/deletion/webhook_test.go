package deletion

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// webhook serves an admission webhook that denies all requests, and returns its clientConfig.
func webhook(t *testing.T, message string) map[string]any {
	t.Helper()
	return suite.RefusingWebhook(t, metav1.Status{Message: message, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, nil)
}

// refuseDeletions makes the API server call a webhook for deletions of leaves, and waits until it
// does. Clear deletes the configuration.
func refuseDeletions(t *testing.T, s suite.Suite, client map[string]any) (clear func()) {
	t.Helper()
	return s.ConfigureWebhook(t, client, `{apiGroups: [leaf.$GROUP], apiVersions: ["*"], resources: ["*"], operations: [DELETE]}`, isLeafDeletionRefused(t, s))
}

// denyByPolicy creates an admission policy that denies deletions of the leaf.
func denyByPolicy(t *testing.T, s suite.Suite) (clear func()) {
	t.Helper()
	s.Apply(t, suite.AdmissionPolicy("guard", `
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [leaf.$GROUP], apiVersions: ["*"], resources: ["*"], operations: [DELETE]}]}
  validations: [{expression: "false", message: not on a Friday}]
`))
	testkit.Poll(t, "the policy denies deletions", isLeafDeletionRefused(t, s))
	return func() { s.DeleteAdmissionPolicy(t, "guard") }
}

// isLeafDeletionRefused returns a function that reports whether the API server refuses to delete a leaf.
func isLeafDeletionRefused(t *testing.T, s suite.Suite) func() bool {
	leaves := s.Resource(t, leaf(s), s.NS)
	return func() bool {
		return leaves.Delete(t.Context(), "x-leaf", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}) != nil
	}
}
