package deletion

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestABlockerIsLetGoOfByName holds both leaves of a nest; somebody names the one,
// and then all.
func TestABlockerIsLetGoOfByName(t *testing.T) {
	s := home(t)
	build(t, s)
	for _, name := range []string{"x-leaf", "x-below"} {
		finalizers(t, s, leaf(s), name, "example.com/guard")
	}
	s.Delete(t, s.Kind("Low"), s.NS, "x")
	s.Await(t, s.Kind("Low"), s.NS, "x", blocked("x-leaf", report.HeldByFinalizer))

	annotate(t, s, s.Kind("Low"), "x", "espalier.dev/force-delete", "leaf")
	s.Await(t, s.Kind("Low"), s.NS, "x", blocked("x-below", report.HeldByFinalizer))
	s.AwaitEvent(t, "x", "ForceDeleted", "somebody", "leaf", "x-leaf", "example.com/guard")

	annotate(t, s, s.Kind("Low"), "x", "espalier.dev/force-delete", "all")
	s.AwaitEvent(t, "x", "ForceDeleted", "somebody", "all", "x-below", "example.com/guard")
	s.Await(t, s.Kind("Low"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if o != nil && o.GetDeletionTimestamp() != nil {
			return errors.New("is still being deleted")
		}
		return nil
	})
	for _, name := range []string{"x-leaf", "x-below"} {
		o := s.Get(t, leaf(s), s.NS, name)
		if o == nil || len(o.GetFinalizers()) != 1 {
			t.Errorf("%s was not left behind as it was: %s", name, testkit.Show(o))
		}
		finalizers(t, s, leaf(s), name)
	}
}

// hasty has a limit after which it lets go of what blocks.
const hasty = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-hasty}
spec:
  deletion: {forceAfter: 2s}
  schema: {apiVersion: v1alpha1, kind: Hasty, group: $GROUP}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-content"}}
`

// TestAfterAWhileTheDefinitionLetsGo has a limit of two seconds in the definition.
func TestAfterAWhileTheDefinitionLetsGo(t *testing.T) {
	s := home(t)
	s.Put(t, hasty)
	s.Active(t, "hasty")
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Hasty\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Hasty"), s.NS, "x")
	finalizers(t, s, suite.ConfigMap, "x-content", "example.com/guard")
	s.Delete(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitEvent(t, "x", "ForceDeleted", "spec.deletion.forceAfter", "x-content")
	finalizers(t, s, suite.ConfigMap, "x-content")
}

// TestWhatOthersKeepAnInstanceForIsTold puts somebody else's finalizer on the
// lowest instance of a nest.
func TestWhatOthersKeepAnInstanceForIsTold(t *testing.T) {
	s := home(t)
	build(t, s)
	low := s.Get(t, s.Kind("Low"), s.NS, "x")
	finalizers(t, s, s.Kind("Low"), "x", append(low.GetFinalizers(), "example.com/guard")...)
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	for _, kind := range layers {
		s.Await(t, s.Kind(kind), s.NS, "x", blocked("Low "+s.NS+"/x", report.HeldByFinalizer, "example.com/guard", "somebody"))
	}
	if list, err := s.Of(t, leaf(s), s.NS).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("there are %d leaves: %v", len(list.Items), err)
	}
	finalizers(t, s, s.Kind("Low"), "x")
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
}

// TestWhoIsNotDeletedTellsOfAChildThatIs deletes the lowest instance by hand, and
// holds it: those above, which are to stay, tell what their node waits for.
func TestWhoIsNotDeletedTellsOfAChildThatIs(t *testing.T) {
	s := home(t)
	build(t, s)
	finalizers(t, s, leaf(s), "x-leaf", "example.com/guard")
	s.Delete(t, s.Kind("Low"), s.NS, "x")
	for _, kind := range layers[1:] {
		s.Await(t, s.Kind(kind), s.NS, "x", func(o *unstructured.Unstructured) error {
			return contains(testkit.Message(o, "Ready"), "x-leaf", "example.com/guard")
		})
	}
	finalizers(t, s, leaf(s), "x-leaf")
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
}
