package deletion

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/test/suite"
)

// refusing is a webhook that answers with the given status, after doing something.
func refusing(t *testing.T, status metav1.Status, do func(*admissionv1.AdmissionRequest)) map[string]any {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if do != nil {
			do(review.Request)
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &status}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return map[string]any{"url": server.URL, "caBundle": base64.StdEncoding.EncodeToString(authority)}
}

// TestAttackAWebhookThatAnswersConflict refuses with code 409 and the reason that
// belongs to it; then it changes its mind.
func TestAttackAWebhookThatAnswersConflict(t *testing.T) {
	s := suite.Alone(t)
	s.Put(t, granted)
	build(t, s)
	clear := refuse(t, s, refusing(t, metav1.Status{Message: "in use", Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}, nil), "guard.example.com")
	s.Delete(t, s.Kind("Low"), s.NS, "x")
	time.Sleep(3 * time.Second)
	o := s.Get(t, s.Kind("Low"), s.NS, "x")
	if d := report.ReadDeletion(o); d == nil || len(d.Blockers) == 0 {
		t.Errorf("a webhook refuses, and the status says nothing: %+v", d)
	}
	clear()
	time.Sleep(5 * time.Second)
	if o := s.Get(t, s.Kind("Low"), s.NS, "x"); o != nil && o.GetDeletionTimestamp() != nil {
		t.Error("the webhook is gone, and the deletion still hangs")
	}
}

// TestAttackTheInventoryIsTakenOff strips, while a child is held, the annotation
// that says where children are.
func TestAttackTheInventoryIsTakenOff(t *testing.T) {
	s := home(t)
	s.Put(t, parts)
	s.Active(t, "parts")
	s.Put(t, fmt.Sprintf(partsInstance, true, true, "a"))
	s.AwaitReady(t, s.Kind("Parts"), s.NS, "x")
	finalizers(t, s, suite.ConfigMap, "x-one-above", "example.com/guard")
	s.Delete(t, s.Kind("Parts"), s.NS, "x")
	s.Await(t, s.Kind("Parts"), s.NS, "x", blocked("x-one-above", report.HeldByFinalizer))
	annotate(t, s, s.Kind("Parts"), "x", "applyset.kubernetes.io/contains-group-kinds", nil)
	time.Sleep(3 * time.Second)
	if s.Get(t, s.Kind("Parts"), s.NS, "x") == nil {
		left, _ := s.Of(t, suite.ConfigMap, s.NS).List(t.Context(), metav1.ListOptions{LabelSelector: "kro.run/owned=true"})
		t.Errorf("the instance is gone, and %d children are left, with its labels", len(left.Items))
	}
	finalizers(t, s, suite.ConfigMap, "x-one-above")
}

// TestAttackASecondDeleteThatOrphans asks, while a deletion is held, to leave what
// is left.
func TestAttackASecondDeleteThatOrphans(t *testing.T) {
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
	time.Sleep(2 * time.Second)
	for i := range 5 {
		name := fmt.Sprintf("x%d", i)
		o := s.Get(t, s.Kind("Parts"), s.NS, name)
		d := report.ReadDeletion(o)
		text, _ := json.Marshal(d)
		if d == nil || d.Policy != report.Orphan {
			t.Errorf("%s: orphan was asked for; the status says %s; %s", name, text, testkit.Message(o, "Ready"))
		}
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

// TestAttackAnUnservedKindGoes makes a kind unserved, and then deletes it.
func TestAttackAnUnservedKindGoes(t *testing.T) {
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

// TestAttackAWebhookThatNotesItsRefusals annotates what it refuses, as audit
// webhooks do.
func TestAttackAWebhookThatNotesItsRefusals(t *testing.T) {
	s := suite.Alone(t)
	s.Put(t, granted)
	build(t, s)
	var asked atomic.Int64
	clear := refuse(t, s, refusing(t, metav1.Status{Message: "no", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, func(r *admissionv1.AdmissionRequest) {
		if r.DryRun != nil && *r.DryRun {
			return
		}
		n := asked.Add(1)
		go annotate(t, s, leaf(s), r.Name, "example.com/refused", fmt.Sprint(n))
	}), "guard.example.com")
	asked.Store(0)
	s.Delete(t, s.Kind("Low"), s.NS, "x")
	time.Sleep(5 * time.Second)
	if n := asked.Load(); n > 8 {
		t.Errorf("asked %d times in five seconds", n)
	}
	clear()
	time.Sleep(time.Second)
}

// TestAttackAnAuthorsFieldNamedDeletion has a nested kind whose author has a field
// of this name.
func TestAttackAnAuthorsFieldNamedDeletion(t *testing.T) {
	s := home(t)
	s.Put(t, strings.Replace(nest, "{apiVersion: v1alpha1, kind: Low, group: $GROUP}", "{apiVersion: v1alpha1, kind: Low, group: $GROUP, status: {deletion: \"${below.spec.a}\"}}", 1))
	s.Active(t, "low", "mid", "top")
	s.Put(t, topInstance)
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
	finalizers(t, s, leaf(s), "x-leaf", "example.com/guard")
	finalizers(t, s, leaf(s), "x-below", "example.com/guard")
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	time.Sleep(7 * time.Second)
	if err := blocked("x-leaf", report.HeldByFinalizer)(s.Get(t, s.Kind("Top"), s.NS, "x")); err != nil {
		t.Errorf("after seven seconds the top %v", err)
	}
	for _, name := range []string{"x-leaf", "x-below"} {
		time.Sleep(time.Second)
		t.Log(testkit.Message(s.Get(t, s.Kind("Low"), s.NS, "x"), "Ready"))
		finalizers(t, s, leaf(s), name)
	}
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
}

// TestAttackALongNameIsHeld gives the holder of a name an owner with a long one.
func TestAttackALongNameIsHeld(t *testing.T) {
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
	time.Sleep(2 * time.Second)
	if o := s.Get(t, s.Kind("Fixed"), s.NS, "next"); testkit.ReasonOf(o, "Ready") != "NameHeld" {
		t.Errorf("%s: %s", testkit.ReasonOf(o, "Ready"), testkit.Message(o, "Ready"))
	}
	finalizers(t, s, suite.ConfigMap, "top-81")
	s.AwaitReady(t, s.Kind("Fixed"), s.NS, "next")
}

// TestAttackARenamedNodeWhoseObjectIsGoing renames a node's id while its object is
// held on its way.
func TestAttackARenamedNodeWhoseObjectIsGoing(t *testing.T) {
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
	time.Sleep(3 * time.Second)
	o := s.Get(t, s.Kind("Renamed"), s.NS, "x")
	if err := contains(testkit.Message(o, "Ready"), "two", "example.com/guard"); err != nil {
		t.Errorf("%s: %v", testkit.ReasonOf(o, "Ready"), err)
	}
	finalizers(t, s, suite.ConfigMap, "x-a")
	s.AwaitReady(t, s.Kind("Renamed"), s.NS, "x")
}

// TestAttackAGroupWhoseServerIsDown has an instance that recorded a kind of a group
// whose server doesn't answer, and takes the group away later.
func TestAttackAGroupWhoseServerIsDown(t *testing.T) {
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
	time.Sleep(2 * time.Second)
	t.Log(testkit.Message(s.Get(t, s.Kind("Parts"), s.NS, "x"), "Ready"))
	s.Delete(t, schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, "", s.Text("v1.down.$GROUP"))
	time.Sleep(20 * time.Second)
	if o := s.Get(t, s.Kind("Parts"), s.NS, "x"); o != nil {
		t.Errorf("the group is gone for 20s; still %s", testkit.Message(o, "Ready"))
	}
}

// TestAttackWhoForcedIsToldTruly names one child in the annotation; the definition
// lets go of another.
func TestAttackWhoForcedIsToldTruly(t *testing.T) {
	s := home(t)
	s.Put(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-hasty}
spec:
  deletion: {forceAfter: 2s}
  schema: {apiVersion: v1alpha1, kind: Hasty, group: $GROUP}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-content"}}
`)
	s.Active(t, "hasty")
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Hasty\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Hasty"), s.NS, "x")
	annotate(t, s, s.Kind("Hasty"), "x", "espalier.dev/force-delete", "somethingElse")
	finalizers(t, s, suite.ConfigMap, "x-content", "example.com/guard")
	s.Delete(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitEvent(t, "x", "ForceDeleted", "spec.deletion.forceAfter", "x-content")
}
