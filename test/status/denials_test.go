package status

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// rules are an admission policy that refuses one value.
var rules = suite.AdmissionPolicy("rules", `
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [CREATE, UPDATE]}]}
  matchConditions: [{name: here, expression: "request.namespace == '$NS'"}]
  validations: [{expression: "!has(object.data) || !('value' in object.data) || object.data.value != 'ours'", message: that is against the rules}]
`)

func TestAdmissionDenialsAreReportedAndRetried(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, rules)
	testkit.Poll(t, "the value is refused", func() bool {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe"}, "data": map[string]any{"value": "ours"}}}
		_, err := s.Resource(t, suite.ConfigMap, s.NS).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	refused := suite.All(suite.HasCondition("Ready", "False", "Rejected", "content: ", "that is against the rules"), suite.HasCondition("ResourcesReady", "False", "Rejected"), suite.HasField("ERROR", "status", "state"))
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.Await(t, s.Kind("Box"), s.NS, "x", refused)
	s.AwaitEvent(t, "x", "Rejected", "that is against the rules")

	t.Log("the tree has a row for it, below the instance and below its definition")
	for _, of := range []observe.Node{tree(t, s, s.Kind("Box"), s.NS, "x"), tree(t, s, suite.RGD, "", s.Name("box")).Children[0]} {
		if of.Name != "x" || len(of.Children) != 1 || of.Children[0].Reason != "Rejected" || !strings.Contains(of.Children[0].Message, "that is against the rules") {
			t.Errorf("the tree is %s", of.JSON())
		}
	}

	t.Log("another value is another matter")
	s.Apply(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("next", "status", "value"), func(o *unstructured.Unstructured) error {
		if told := report.ReadProblems(o); len(told) > 0 {
			return fmt.Errorf("status.problems still has %v", told)
		}
		return nil
	}))

	t.Log("a change that is refused leaves what there is, and what is reported of it")
	s.Apply(t, suite.BoxInstance+"spec: {value: ours}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(refused, suite.HasField("next", "status", "value")))
	if content := tree(t, s, s.Kind("Box"), s.NS, "x").Children[0]; !content.Exists || content.Problem == nil || content.Problem.Reason != "Rejected" {
		t.Errorf("the row of the object is %s", content.JSON())
	}

	t.Log("when the rules are others, it continues by itself")
	s.DeleteAdmissionPolicy(t, "rules")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("ours", "status", "value")))
}

// TestWebhookConflictsAreReportedAndRetried has a webhook refuse writes in the words
// in which the API server says that an object is gone or has changed. None has, so that no
// event follows: not of a child, and not of an instance.
func TestWebhookConflictsAreReportedAndRetried(t *testing.T) {
	s := suite.New(t)
	conflict := metav1.Status{Message: "somebody is at it", Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	webhook := suite.RefusingWebhook(t, conflict, nil)
	changes := func(kind schema.GroupVersionKind, name string) func() bool {
		return func() bool {
			_, err := s.Resource(t, kind, s.NS).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil
		}
	}
	refused := func(condition string, contains ...string) suite.Check {
		return suite.All(suite.HasCondition("Ready", "False", "Rejected", append(contains, "guard.example.com", conflict.Message)...), suite.HasCondition(condition, "False", "Rejected"), suite.HasField("ERROR", "status", "state"))
	}
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

	t.Log("an update of a child")
	clear := s.ConfigureWebhook(t, webhook, `{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [UPDATE]}`, changes(suite.ConfigMap, "x-content"))
	s.Apply(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", refused("ResourcesReady", "content: update rejected: "))
	s.AwaitEvent(t, "x", "Rejected", conflict.Message)
	clear()
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("next", "status", "value")))

	t.Log("the creation of a child")
	clear = s.ConfigureWebhook(t, webhook, `{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [CREATE]}`, func() bool {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe"}}}
		_, err := s.Resource(t, suite.ConfigMap, s.NS).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	s.Delete(t, suite.ConfigMap, s.NS, "x-content")
	s.Await(t, s.Kind("Box"), s.NS, "x", refused("ResourcesReady", "content: "))
	clear()
	s.Await(t, s.Kind("Box"), s.NS, "x", testkit.IsReady)

	t.Log("the inventory of an instance")
	clear = s.ConfigureWebhook(t, webhook, `{apiGroups: [$GROUP], apiVersions: ["*"], resources: [boxes], operations: [UPDATE]}`, changes(s.Kind("Box"), "x"))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: other, namespace: $NS}\n")
	s.Await(t, s.Kind("Box"), s.NS, "other", refused("InstanceManaged", "has no finalizer, labels and inventory"))
	s.AwaitEvent(t, "other", "Rejected", conflict.Message)
	if s.Get(t, suite.ConfigMap, s.NS, "other-content") != nil {
		t.Error("a child is created for an instance without finalizer, labels and inventory")
	}
	clear()
	s.AwaitReady(t, s.Kind("Box"), s.NS, "other")
}
