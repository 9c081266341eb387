package deletion

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestChildrenAreDeletedWithoutTheInventory removes the inventory from a terminating instance, while a
// finalizer blocks the deletion of a child: all children are deleted nevertheless.
func TestChildrenAreDeletedWithoutTheInventory(t *testing.T) {
	s := createParts(t)
	setFinalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	s.Delete(t, s.Kind("Parts"), s.NS, "x")
	s.Await(t, s.Kind("Parts"), s.NS, "x", isBlocked("x-one-above", report.HeldByFinalizer))
	annotate(t, s, s.Kind("Parts"), "x", "applyset.kubernetes.io/contains-group-kinds", nil)
	setFinalizers(t, s, suite.ConfigMap, "x-one-above")
	s.AwaitGone(t, s.Kind("Parts"), s.NS, "x")
	if left := s.List(t, suite.ConfigMap, s.NS, "kro.run/owned=true"); len(left) > 0 {
		t.Errorf("the instance is deleted, and %d children remain", len(left))
	}
}

// TestASecondDeleteOrphansRemainingChildren deletes instances a second time with the policy Orphan,
// while their deletion is blocked.
func TestASecondDeleteOrphansRemainingChildren(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, parts)
	s.AwaitDefinitions(t, "parts")
	for i := range 5 {
		s.Apply(t, strings.ReplaceAll(fmt.Sprintf(partsInstance, true, true, "a"), "name: x", fmt.Sprintf("name: x%d", i)))
	}
	for i := range 5 {
		name := fmt.Sprintf("x%d", i)
		s.AwaitReady(t, s.Kind("Parts"), s.NS, name)
		setFinalizers(t, s, suite.ConfigMap, name+"-one-above", "example.com/guard")
		s.Delete(t, s.Kind("Parts"), s.NS, name)
		s.Await(t, s.Kind("Parts"), s.NS, name, isBlocked("-one-above", report.HeldByFinalizer))
		s.DeleteWith(t, s.Kind("Parts"), s.NS, name, metav1.DeletePropagationOrphan)
	}
	for i := range 5 {
		name := fmt.Sprintf("x%d", i)
		s.Await(t, s.Kind("Parts"), s.NS, name, func(o *unstructured.Unstructured) error {
			if d := report.ReadDeletion(o); d == nil || d.Policy != report.Orphan {
				return fmt.Errorf("the policy is Orphan; the status reports %+v", d)
			}
			return containsAll(testkit.ConditionMessage(o, "Ready"), "left in place")
		})
		if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, name+"-one-below")); err != nil {
			t.Errorf("%s-one-below %v", name, err)
		}
		setFinalizers(t, s, suite.ConfigMap, name+"-one-above")
	}
	for i := range 5 {
		name := fmt.Sprintf("x%d", i)
		s.AwaitGone(t, s.Kind("Parts"), s.NS, name)
		for _, part := range []string{"-one-below", "-base"} {
			if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, name+part)); err != nil {
				t.Errorf("%s%s %v", name, part, err)
			}
		}
	}
}

// TestAnUnservedKindIsDeletedLater sets served to false in the only version of a kind, and then
// deletes the kind.
func TestAnUnservedKindIsDeletedLater(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	setServed(t, s, false)
	s.Delete(t, s.Kind("Low"), s.NS, "x")
	blocked := s.Await(t, s.Kind("Low"), s.NS, "x", isBlocked("objects of kind Leaf", report.KindUnavailable))
	if d := report.ReadDeletion(blocked); d.Removed != 0 || d.Percent == 100 {
		t.Errorf("no child is deleted, and the status reports %s, %d%%", d.Progress, d.Percent)
	}
	s.DeleteCRD(t, s.Expand("leafs.leaf.$GROUP"))
	uid := blocked.GetUID()
	s.Await(t, s.Kind("Low"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if o != nil && o.GetUID() == uid {
			return errors.New("still exists")
		}
		return nil
	})
}

// TestAnAnnotatingWebhookIsCalledWithBackoff has a webhook that annotates each object whose deletion
// it denies, as audit webhooks do: the events of the annotations cause no deletion each. The test
// counts the calls of five seconds.
func TestAnAnnotatingWebhookIsCalledWithBackoff(t *testing.T) {
	s := suite.NewSerial(t)
	s.Apply(t, granted)
	build(t, s)
	var calls atomic.Int64
	clear := refuseDeletions(t, s, suite.RefusingWebhook(t, metav1.Status{Message: "no", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, func(r *admissionv1.AdmissionRequest) {
		if r.DryRun != nil && *r.DryRun {
			return
		}
		n := calls.Add(1)
		go annotate(t, s, leaf(s), r.Name, "example.com/refused", fmt.Sprint(n))
	}))
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	s.Await(t, s.Kind("Top"), s.NS, "x", isBlocked("x-leaf", report.DeniedByWebhook))
	<-time.After(5 * time.Second)
	if n := calls.Load(); n > 25 { // with backoff about ten; with a deletion after each event hundreds
		t.Errorf("called %d times in five seconds", n)
	}
	clear()
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
}

// TestTheCauseIsReportedWithoutTheStatusField has a nested kind whose author defines status.deletion
// as a field of its own.
func TestTheCauseIsReportedWithoutTheStatusField(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, strings.Replace(nest, "{apiVersion: v1alpha1, kind: Low, group: $GROUP}", "{apiVersion: v1alpha1, kind: Low, group: $GROUP, status: {deletion: \"${below.spec.a}\"}}", 1))
	s.AwaitDefinitions(t, "low", "mid", "top")
	s.Apply(t, topInstance)
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
	setFinalizers(t, s, leaf(s), "x-leaf", "example.com/guard")
	setFinalizers(t, s, leaf(s), "x-below", "example.com/guard")
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	s.Await(t, s.Kind("Top"), s.NS, "x", notReadyBecause("Deleting", "x-leaf", "example.com/guard"))
	setFinalizers(t, s, leaf(s), "x-leaf")
	s.Await(t, s.Kind("Low"), s.NS, "x", notReadyBecause("Deleting", "1 of 2 are gone", "x-below"))
	s.Await(t, s.Kind("Top"), s.NS, "x", notReadyBecause("Deleting", "x-below", "example.com/guard"))
	setFinalizers(t, s, leaf(s), "x-below")
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
}

// TestAnOwnerWithALongNameIsReported has an owner whose name is longer than the value of a label.
func TestAnOwnerWithALongNameIsReported(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, suite.Graph("Fixed", "", `
    - id: one
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}}
    - id: two
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "top-${string(size(schema.metadata.name))}"}, data: {of: "${one.metadata.name}"}}
`))
	s.AwaitDefinitions(t, "fixed")
	name := "a" + strings.Repeat("b", 80)
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Fixed\nmetadata: {name: "+name+", namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Fixed"), s.NS, name)
	setFinalizers(t, s, suite.ConfigMap, "top-81", "example.com/guard")
	s.Delete(t, s.Kind("Fixed"), s.NS, name)
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Fixed\nmetadata: {name: next, namespace: $NS}\n")
	s.Await(t, s.Kind("Fixed"), s.NS, "next", hasState("IN_PROGRESS", notReadyBecause("NameHeld", name)))
	setFinalizers(t, s, suite.ConfigMap, "top-81")
	s.AwaitReady(t, s.Kind("Fixed"), s.NS, "next")
}

// TestARenamedNodeWaitsForItsTerminatingObject changes the id of a node while a finalizer blocks the
// deletion of its object.
func TestARenamedNodeWaitsForItsTerminatingObject(t *testing.T) {
	s := newSuite(t)
	definition := suite.Graph("Renamed", "", `
    - id: NODE
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-a"}}
`)
	s.Apply(t, strings.ReplaceAll(definition, "NODE", "one"))
	s.AwaitDefinitions(t, "renamed")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Renamed\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Renamed"), s.NS, "x")
	setFinalizers(t, s, suite.ConfigMap, "x-a", "example.com/guard")
	s.Delete(t, suite.ConfigMap, s.NS, "x-a")
	s.Apply(t, strings.ReplaceAll(definition, "NODE", "two"))
	s.Await(t, s.Kind("Renamed"), s.NS, "x", notReadyBecause("ResourceDeleting", "two", "example.com/guard"))
	setFinalizers(t, s, suite.ConfigMap, "x-a")
	s.AwaitReady(t, s.Kind("Renamed"), s.NS, "x")
}

// TestAGroupOfAnUnavailableServerBlocksUntilItIsRemoved has an instance with a kind in its inventory
// whose aggregated API server is unavailable, and deletes the APIService later.
func TestAGroupOfAnUnavailableServerBlocksUntilItIsRemoved(t *testing.T) {
	s := suite.NewSerial(t)
	s.Apply(t, granted)
	s.Apply(t, parts)
	s.AwaitDefinitions(t, "parts")
	s.Apply(t, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.down.$GROUP}
spec: {group: down.$GROUP, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: nobody, namespace: $NS, port: 443}}
`)
	s.Apply(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	setFinalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	s.Delete(t, s.Kind("Parts"), s.NS, "x")
	s.Await(t, s.Kind("Parts"), s.NS, "x", isBlocked("x-one-above", report.HeldByFinalizer))
	annotate(t, s, s.Kind("Parts"), "x", "applyset.kubernetes.io/contains-group-kinds", s.Expand("ConfigMap,Thing.down.$GROUP"))
	s.Await(t, s.Kind("Parts"), s.NS, "x", func(o *unstructured.Unstructured) error {
		return containsAll(testkit.ConditionMessage(o, "Ready"), "OutOfReach")
	})
	setFinalizers(t, s, suite.ConfigMap, "x-one-above")
	s.Delete(t, schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, "", s.Expand("v1.down.$GROUP"))
	s.AwaitGone(t, s.Kind("Parts"), s.NS, "x")
}

// TestEventsReportWhatReleasedABlocker has an annotation that releases one child, and a definition
// that releases another after a time.
func TestEventsReportWhatReleasedABlocker(t *testing.T) {
	s := createHasty(t)
	annotate(t, s, s.Kind("Hasty"), "x", "espalier.dev/force-delete", "somethingElse")
	setFinalizers(t, s, suite.ConfigMap, "x-content", "example.com/guard")
	s.Delete(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitEvent(t, "x", "ForceDeleted", "spec.deletion.forceAfter", "x-content")
}
