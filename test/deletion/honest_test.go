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

// TestAnInventoryThatIsTakenOffIsMissed strips, while a child is held, the
// annotation that says where children are.
func TestAnInventoryThatIsTakenOffIsMissed(t *testing.T) {
	s := home(t)
	s.Put(t, parts)
	s.Active(t, "parts")
	s.Put(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	finalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	s.Delete(t, s.Kind("Parts"), s.NS, "x")
	s.Await(t, s.Kind("Parts"), s.NS, "x", blocked("x-one-above", report.HeldByFinalizer))
	annotate(t, s, s.Kind("Parts"), "x", "applyset.kubernetes.io/contains-group-kinds", nil)
	finalizers(t, s, suite.ConfigMap, "x-one-above")
	s.AwaitGone(t, s.Kind("Parts"), s.NS, "x")
	left, err := s.Of(t, suite.ConfigMap, s.NS).List(t.Context(), metav1.ListOptions{LabelSelector: "kro.run/owned=true"})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("the instance is gone, and %d children are left: %v", len(left.Items), err)
	}
}

// TestASecondDeleteMayAskForTheRestToStay asks, while a deletion is held, to leave what
// is left.
func TestASecondDeleteMayAskForTheRestToStay(t *testing.T) {
	s := home(t)
	s.Put(t, parts)
	s.Active(t, "parts")
	for i := range 5 {
		s.Put(t, strings.ReplaceAll(fmt.Sprintf(partsInstance, true, true, "a"), "name: x", fmt.Sprintf("name: x%d", i)))
	}
	for i := range 5 {
		name := fmt.Sprintf("x%d", i)
		s.AwaitReady(t, s.Kind("Parts"), s.NS, name)
		finalizers(t, s, suite.ConfigMap, name+"-one-above", "example.com/guard")
		s.Delete(t, s.Kind("Parts"), s.NS, name)
		s.Await(t, s.Kind("Parts"), s.NS, name, blocked("-one-above", report.HeldByFinalizer))
		orphan := metav1.DeletePropagationOrphan
		if err := s.Of(t, s.Kind("Parts"), s.NS).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		name := fmt.Sprintf("x%d", i)
		s.Await(t, s.Kind("Parts"), s.NS, name, func(o *unstructured.Unstructured) error {
			if d := report.ReadDeletion(o); d == nil || d.Policy != report.Orphan {
				return fmt.Errorf("orphan was asked for; the status says %+v", d)
			}
			return contains(testkit.Message(o, "Ready"), "left in place")
		})
		if err := stays(s.Get(t, suite.ConfigMap, s.NS, name+"-one-below")); err != nil {
			t.Errorf("%s-one-below %v", name, err)
		}
		finalizers(t, s, suite.ConfigMap, name+"-one-above")
	}
	for i := range 5 {
		name := fmt.Sprintf("x%d", i)
		s.AwaitGone(t, s.Kind("Parts"), s.NS, name)
		for _, part := range []string{"-one-below", "-base"} {
			if err := stays(s.Get(t, suite.ConfigMap, s.NS, name+part)); err != nil {
				t.Errorf("%s%s %v", name, part, err)
			}
		}
	}
}

// TestAKindThatIsNotServedAndThenGoesIsRemoved makes a kind unserved, and then deletes it.
func TestAKindThatIsNotServedAndThenGoesIsRemoved(t *testing.T) {
	s := home(t)
	build(t, s)
	serve(t, s, false)
	s.Delete(t, s.Kind("Low"), s.NS, "x")
	told := s.Await(t, s.Kind("Low"), s.NS, "x", blocked("objects of kind Leaf", report.KindUnavailable))
	if d := report.ReadDeletion(told); d.Removed != 0 || d.Percent == 100 {
		t.Errorf("nothing has been removed, and the status says %s, %d%%", d.Progress, d.Percent)
	}
	s.Delete(t, suite.CRD, "", s.Text("leafs.leaf.$GROUP"))
	uid := told.GetUID()
	s.Await(t, s.Kind("Low"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if o != nil && o.GetUID() == uid {
			return errors.New("is still there")
		}
		return nil
	})
}

// TestAWebhookThatNotesItsRefusalsIsNotAskedWithoutEnd annotates what it refuses,
// as audit webhooks do. That it isn't asked is told by nobody, and takes a clock.
func TestAWebhookThatNotesItsRefusalsIsNotAskedWithoutEnd(t *testing.T) {
	s := suite.Alone(t)
	s.Put(t, granted)
	build(t, s)
	var asked atomic.Int64
	clear := refuse(t, s, suite.Refusing(t, metav1.Status{Message: "no", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, func(r *admissionv1.AdmissionRequest) {
		if r.DryRun != nil && *r.DryRun {
			return
		}
		n := asked.Add(1)
		go annotate(t, s, leaf(s), r.Name, "example.com/refused", fmt.Sprint(n))
	}), "guard.example.com")
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	s.Await(t, s.Kind("Top"), s.NS, "x", blocked("x-leaf", report.DeniedByWebhook))
	<-time.After(5 * time.Second)
	if n := asked.Load(); n > 25 { // with growing delays it is about ten; each event answered with a deletion makes hundreds
		t.Errorf("asked %d times in five seconds", n)
	}
	clear()
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
}

// TestWithoutRoomInTheStatusTheCauseIsToldAllTheSame has a nested kind whose author
// has a field of this name.
func TestWithoutRoomInTheStatusTheCauseIsToldAllTheSame(t *testing.T) {
	s := home(t)
	s.Put(t, strings.Replace(nest, "{apiVersion: v1alpha1, kind: Low, group: $GROUP}", "{apiVersion: v1alpha1, kind: Low, group: $GROUP, status: {deletion: \"${below.spec.a}\"}}", 1))
	s.Active(t, "low", "mid", "top")
	s.Put(t, topInstance)
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
	finalizers(t, s, leaf(s), "x-leaf", "example.com/guard")
	finalizers(t, s, leaf(s), "x-below", "example.com/guard")
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	s.Await(t, s.Kind("Top"), s.NS, "x", because("Deleting", "x-leaf", "example.com/guard"))
	finalizers(t, s, leaf(s), "x-leaf")
	s.Await(t, s.Kind("Low"), s.NS, "x", because("Deleting", "1 of 2 are gone", "x-below"))
	s.Await(t, s.Kind("Top"), s.NS, "x", because("Deleting", "x-below", "example.com/guard"))
	finalizers(t, s, leaf(s), "x-below")
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
}

// TestTheNameOfALongNamedHolderIsHeld gives the holder of a name an owner with a long one.
func TestTheNameOfALongNamedHolderIsHeld(t *testing.T) {
	s := home(t)
	s.Put(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-fixed}
spec:
  schema: {apiVersion: v1alpha1, kind: Fixed, group: $GROUP}
  resources:
    - id: one
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}}
    - id: two
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "top-${string(size(schema.metadata.name))}"}, data: {of: "${one.metadata.name}"}}
`)
	s.Active(t, "fixed")
	name := "a" + strings.Repeat("b", 80)
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Fixed\nmetadata: {name: "+name+", namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Fixed"), s.NS, name)
	finalizers(t, s, suite.ConfigMap, "top-81", "example.com/guard")
	s.Delete(t, s.Kind("Fixed"), s.NS, name)
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Fixed\nmetadata: {name: next, namespace: $NS}\n")
	s.Await(t, s.Kind("Fixed"), s.NS, "next", is("IN_PROGRESS", because("NameHeld", name)))
	finalizers(t, s, suite.ConfigMap, "top-81")
	s.AwaitReady(t, s.Kind("Fixed"), s.NS, "next")
}

// TestANodeThatIsRenamedWaitsForItsObjectToGo renames a node's id while its object is
// held on its way.
func TestANodeThatIsRenamedWaitsForItsObjectToGo(t *testing.T) {
	s := home(t)
	definition := `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-renamed}
spec:
  schema: {apiVersion: v1alpha1, kind: Renamed, group: $GROUP}
  resources:
    - id: NODE
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-a"}}
`
	s.Put(t, strings.ReplaceAll(definition, "NODE", "one"))
	s.Active(t, "renamed")
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Renamed\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Renamed"), s.NS, "x")
	finalizers(t, s, suite.ConfigMap, "x-a", "example.com/guard")
	s.Delete(t, suite.ConfigMap, s.NS, "x-a")
	s.Put(t, strings.ReplaceAll(definition, "NODE", "two"))
	s.Await(t, s.Kind("Renamed"), s.NS, "x", because("ResourceDeleting", "two", "example.com/guard"))
	finalizers(t, s, suite.ConfigMap, "x-a")
	s.AwaitReady(t, s.Kind("Renamed"), s.NS, "x")
}

// TestAGroupWhoseServerIsDownIsOutOfReachUntilItGoes has an instance that recorded a kind of a group
// whose server doesn't answer, and takes the group away later.
func TestAGroupWhoseServerIsDownIsOutOfReachUntilItGoes(t *testing.T) {
	s := suite.Alone(t)
	s.Put(t, granted)
	s.Put(t, parts)
	s.Active(t, "parts")
	s.Put(t, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.down.$GROUP}
spec: {group: down.$GROUP, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: nobody, namespace: $NS, port: 443}}
`)
	s.Put(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	finalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	s.Delete(t, s.Kind("Parts"), s.NS, "x")
	s.Await(t, s.Kind("Parts"), s.NS, "x", blocked("x-one-above", report.HeldByFinalizer))
	annotate(t, s, s.Kind("Parts"), "x", "applyset.kubernetes.io/contains-group-kinds", s.Text("ConfigMap,Thing.down.$GROUP"))
	s.Await(t, s.Kind("Parts"), s.NS, "x", func(o *unstructured.Unstructured) error { return contains(testkit.Message(o, "Ready"), "OutOfReach") })
	finalizers(t, s, suite.ConfigMap, "x-one-above")
	s.Delete(t, schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, "", s.Text("v1.down.$GROUP"))
	s.AwaitGone(t, s.Kind("Parts"), s.NS, "x")
}

// TestItIsToldWhoLetGoOfWhat names one child in the annotation; the definition
// lets go of another.
func TestItIsToldWhoLetGoOfWhat(t *testing.T) {
	s := home(t)
	s.Put(t, hasty)
	s.Active(t, "hasty")
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Hasty\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Hasty"), s.NS, "x")
	annotate(t, s, s.Kind("Hasty"), "x", "espalier.dev/force-delete", "somethingElse")
	finalizers(t, s, suite.ConfigMap, "x-content", "example.com/guard")
	s.Delete(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitEvent(t, "x", "ForceDeleted", "spec.deletion.forceAfter", "x-content")
}
