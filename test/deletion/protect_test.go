package deletion

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAProtectedInstanceKeepsAllOfItsChildren protects each layer in turn: while it is protected, no
// object below it is deleted.
func TestAProtectedInstanceKeepsAllOfItsChildren(t *testing.T) {
	for i, kind := range layers {
		t.Run(kind, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			annotate(t, s, s.Kind(kind), "x", "espalier.dev/protect", "audit until June")
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			for _, above := range layers[min(i+1, 2):] {
				s.Await(t, s.Kind(above), s.NS, "x", isBlocked(kind+" "+s.NS+"/x", report.Protected, "audit until June"))
			}
			for _, below := range layers[:i] {
				if o := s.Get(t, s.Kind(below), s.NS, "x"); o == nil || o.GetDeletionTimestamp() != nil {
					t.Errorf("%s is deleted", below)
				}
			}
			annotate(t, s, s.Kind(kind), "x", "espalier.dev/protect", nil)
			s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
			s.AwaitGone(t, leaf(s), s.NS, "x-below")
		})
	}
}

// ordered has two independent nodes, and a third that depends on one of them.
var ordered = suite.Graph("Ordered", "", `
    - id: network
      deleteAfter: [database]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-network"}}
    - id: database
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-database"}}
    - id: user
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-user"}, data: {of: "${database.metadata.name}"}}
`)

// TestDeleteAfterOrdersIndependentNodes has a network that is deleted after the database.
func TestDeleteAfterOrdersIndependentNodes(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, ordered)
	s.AwaitDefinitions(t, "ordered")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Ordered\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Ordered"), s.NS, "x")
	for _, name := range []string{"x-user", "x-database"} {
		setFinalizers(t, s, suite.ConfigMap, name, "example.com/guard")
	}
	s.Delete(t, s.Kind("Ordered"), s.NS, "x")
	s.Await(t, s.Kind("Ordered"), s.NS, "x", isBlocked("x-user", report.HeldByFinalizer))
	for _, name := range []string{"x-database", "x-network"} {
		if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, name)); err != nil {
			t.Errorf("%s %v before the node that depends on it", name, err)
		}
	}
	setFinalizers(t, s, suite.ConfigMap, "x-user")
	blocked := s.Await(t, s.Kind("Ordered"), s.NS, "x", isBlocked("x-database", report.HeldByFinalizer))
	if d := report.ReadDeletion(blocked); d.Progress != "1/3" || d.Percent != 33 || d.Wave != 2 || d.Waves != 3 || d.Remaining != 2 {
		t.Errorf("progress: %+v", d)
	}
	if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, "x-network")); err != nil {
		t.Errorf("the network %v before the database", err)
	}
	setFinalizers(t, s, suite.ConfigMap, "x-database")
	s.AwaitGone(t, s.Kind("Ordered"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-network")
}

// TestADeletionIsReportedBeforeChildrenAreDeleted watches an instance and its children: Ready gets the
// reason Deleting before any child is deleted, and keeps it.
func TestADeletionIsReportedBeforeChildrenAreDeleted(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	instances, err := s.Resource(t, s.Kind("Low"), s.NS).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer instances.Stop()
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
	reported := ""
	for event := range instances.ResultChan() {
		o, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("the watch ended: %v", event)
		}
		if o.GetDeletionTimestamp() != nil && reported == "" && testkit.ConditionReason(o, "Ready") == "Deleting" {
			reported = o.GetResourceVersion()
			list, err := s.Resource(t, leaf(s), s.NS).List(t.Context(), metav1.ListOptions{ResourceVersion: reported, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			if err != nil || len(list.Items) != 2 {
				t.Errorf("when the deletion was reported there were %d children: %v", len(list.Items), err)
			}
			for i := range list.Items {
				if list.Items[i].GetDeletionTimestamp() != nil {
					t.Errorf("%s was deleted before the deletion was reported", list.Items[i].GetName())
				}
			}
		}
		if reported != "" && testkit.ConditionReason(o, "Ready") != "Deleting" {
			t.Errorf("after Deleting the reason is %s", testkit.ConditionReason(o, "Ready"))
		}
		if event.Type == "DELETED" {
			break
		}
	}
	if reported == "" {
		t.Error("the deletion was never reported")
	}
}
