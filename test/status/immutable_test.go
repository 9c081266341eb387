package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestTheReasonOfARejectedUpdateIsReported changes an immutable field: the error of the API
// server quotes the whole template before the reason.
func TestTheReasonOfARejectedUpdateIsReported(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Task", "spec: {image: string}", `
    - id: job
      template:
        apiVersion: batch/v1
        kind: Job
        metadata: {name: "${schema.metadata.name}"}
        spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "${schema.spec.image}", env: [{name: TOKEN, value: hunter2}]}]}}}
`))
	task := func(image string) string {
		return "apiVersion: $GROUP/v1alpha1\nkind: Task\nmetadata: {name: x, namespace: $NS}\nspec: {image: " + image + "}\n"
	}
	s.Apply(t, task("one"))
	s.Await(t, s.Kind("Task"), s.NS, "x", testkit.IsReady)
	s.Apply(t, task("two"))
	const reason = `job: update rejected: Job.batch "x" is invalid: spec.template: Invalid value: field is immutable`
	o := s.Await(t, s.Kind("Task"), s.NS, "x", suite.HasCondition("Ready", "False", "Rejected", reason))
	s.AwaitEvent(t, "x", "Rejected", reason)
	if shown := testkit.JSON(o); strings.Contains(shown, "hunter2") || strings.Contains(shown, "TerminationMessagePath") {
		t.Errorf("the status repeats the template: %s", shown)
	}
	s.Apply(t, task("one"))
	s.Await(t, s.Kind("Task"), s.NS, "x", testkit.IsReady)
	if s.Get(t, schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, s.NS, "x") == nil {
		t.Error("the job is gone")
	}
}
