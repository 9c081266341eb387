package deletion

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestARefusalIsNotMistakenForADeletion has a webhook deny deletions with the status by which the
// API server reports that an object is deleted or has changed.
func TestARefusalIsNotMistakenForADeletion(t *testing.T) {
	for name, status := range map[string]metav1.Status{
		"in conflict": {Message: "somebody is at it", Code: http.StatusConflict, Reason: metav1.StatusReasonConflict},
		"not found":   {Message: "no such tenant", Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound},
		"gone":        {Message: "that was long ago", Code: http.StatusGone, Reason: metav1.StatusReasonGone},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			clear := refuseDeletions(t, s, suite.RefusingWebhook(t, status, nil))
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			awaitBlocked(t, s, "x-leaf", report.DeniedByWebhook, status.Message)
			clear()
			awaitNestGone(t, s)
			awaitGone(t, s, leaf(s), "x-below")
		})
	}
}

// keepFinalizers is a policy that denies the removal of finalizers from a Low.
var keepFinalizers = suite.AdmissionPolicy("keep", `
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [$GROUP], apiVersions: ["*"], resources: [lows], operations: [UPDATE]}]}
  validations: [{expression: "has(object.metadata.finalizers) && size(object.metadata.finalizers) > 0", message: it is on record}]
`)

// isFinalizerRemovalRefused returns a function that reports whether the API server refuses to remove
// the finalizers of the Low.
func isFinalizerRemovalRefused(t *testing.T, s suite.Suite) func() bool {
	lows := s.Resource(t, s.Kind("Low"), s.NS)
	return func() bool {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := lows.Patch(t.Context(), "x", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	}
}

// TestAFailedFinalizerRemovalIsReported denies the last request of a deletion, which removes the
// finalizer.
func TestAFailedFinalizerRemovalIsReported(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	s.Apply(t, keepFinalizers)
	testkit.Poll(t, "the policy denies the removal of finalizers", isFinalizerRemovalRefused(t, s))
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitBlocked(t, s, "Low "+s.NS+"/x", report.DeniedByWebhook, "the finalizer cannot be removed")
	awaitGone(t, s, leaf(s), "x-below")
	if d := report.ReadDeletion(s.Get(t, s.Kind("Low"), s.NS, "x")); d.Percent != 100 || d.Remaining != 0 {
		t.Errorf("the status reports %d %%, with %d remaining", d.Percent, d.Remaining)
	}
	s.AwaitEvent(t, "x", "DeletionBlocked", "the finalizer cannot be removed")
	s.DeleteAdmissionPolicy(t, "keep")
	awaitNestGone(t, s)
}

// TestAConflictOfAWebhookIsReportedAndRetried denies the removal of a finalizer with the status by
// which the API server reports a concurrent change. There is no such change, so no event triggers
// the next reconcile.
func TestAConflictOfAWebhookIsReportedAndRetried(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	status := metav1.Status{Message: "somebody is at it", Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	clear := s.ConfigureWebhook(t, suite.RefusingWebhook(t, status, nil),
		`{apiGroups: [$GROUP], apiVersions: ["*"], resources: [lows], operations: [UPDATE]}`, isFinalizerRemovalRefused(t, s))
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitBlocked(t, s, "Low "+s.NS+"/x", report.DeniedByWebhook, "the finalizer cannot be removed")
	clear()
	awaitNestGone(t, s)
}
