package deletion

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const guard = "example.com/held"

// buildBlocked creates a nest and deletes it, and waits until the finalizer of its leaf is reported as
// the blocker.
func buildBlocked(t *testing.T, s suite.Suite) {
	t.Helper()
	build(t, s)
	setFinalizers(t, s, leaf(s), "x-leaf", guard)
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
}

// TestTheLeafKindIsDeletedWithTheNest deletes the kind of the lowest objects, while a finalizer blocks
// the deletion of one, before or after the nest is deleted.
func TestTheLeafKindIsDeletedWithTheNest(t *testing.T) {
	for name, first := range map[string]func(t *testing.T, s suite.Suite, kind, nest func()){
		"after it": func(_ *testing.T, _ suite.Suite, kind, nest func()) {
			nest()
			kind()
		},
		"before it": func(_ *testing.T, _ suite.Suite, kind, nest func()) {
			kind()
			nest()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			setFinalizers(t, s, leaf(s), "x-leaf", guard)
			watched := watchLayers(t, s, isNotInError)
			first(t, s, func() {
				s.DeleteCRD(t, leafCRD(s))
				awaitGone(t, s, leaf(s), "x-below")
			}, func() {
				s.Delete(t, s.Kind("Top"), s.NS, "x")
				awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			})
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			setFinalizers(t, s, leaf(s), "x-leaf")
			awaitNestGone(t, s)
			s.AwaitGone(t, suite.CRD, "", leafCRD(s))
			watched.check(t)
		})
	}
}

// deleteLeafKind creates a nest, deletes the kind of its leaves, and waits until the lowest instance
// reports that.
func deleteLeafKind(t *testing.T) (s suite.Suite, watched *revisionChecker) {
	t.Helper()
	s = newSuite(t)
	build(t, s)
	watched = watchLayers(t, s, isNotInError)
	s.DeleteCRD(t, leafCRD(s))
	s.AwaitGone(t, suite.CRD, "", leafCRD(s))
	s.Await(t, s.Kind("Low"), s.NS, "x", isWaiting("WaitingForKind", "Leaf"))
	return s, watched
}

// TestTheLeafKindIsDeletedUnderANest deletes the kind of the children of the lowest instance.
func TestTheLeafKindIsDeletedUnderANest(t *testing.T) {
	t.Run("and the nest is deleted after it", func(t *testing.T) {
		s, watched := deleteLeafKind(t)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitNestGone(t, s)
		watched.check(t)
	})
	t.Run("and the kind is recreated", func(t *testing.T) {
		s, watched := deleteLeafKind(t)
		s.Apply(t, leafKind)
		awaitServed(t, s, leaf(s))
		s.Await(t, leaf(s), s.NS, "x-leaf", suite.IsPresent)
		s.AwaitReady(t, s.Kind("Low"), s.NS, "x")
		s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
		deleteNest(t, s, watched)
	})
}

// TestAComposedKindIsDeletedUnderANest deletes the kind of a middle layer,
// and with it that layer's instances: its definition publishes the kind again, and
// the layer above recreates its instance.
func TestAComposedKindIsDeletedUnderANest(t *testing.T) {
	for _, kind := range []string{"Low", "Mid"} {
		t.Run(kind, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			was := s.Get(t, s.Kind(kind), s.NS, "x")
			before := s.Get(t, suite.CRD, "", kindCRD(s, kind))
			watched := watchLayers(t, s, isNotInError)
			s.DeleteCRD(t, kindCRD(s, kind))
			s.Await(t, suite.CRD, "", kindCRD(s, kind), isRecreated(before))
			awaitServed(t, s, s.Kind(kind))
			s.Await(t, s.Kind(kind), s.NS, "x", isRecreated(was))
			s.AwaitReady(t, s.Kind(kind), s.NS, "x")
			s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
			deleteNest(t, s, watched)
		})
	}
}

// TestAComposedKindIsDeletedWhileTheNestIs deletes the kind of a layer, while a finalizer of a leaf
// blocks the deletion of the nest.
func TestAComposedKindIsDeletedWhileTheNestIs(t *testing.T) {
	for _, kind := range layers {
		t.Run(kind, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			setFinalizers(t, s, leaf(s), "x-leaf", guard)
			before := s.Get(t, suite.CRD, "", kindCRD(s, kind))
			watched := watchLayers(t, s, isNotInError)
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			s.DeleteCRD(t, kindCRD(s, kind))
			s.Await(t, suite.CRD, "", kindCRD(s, kind), isTerminating)
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			setFinalizers(t, s, leaf(s), "x-leaf")
			awaitNestGone(t, s)
			t.Log("the definition, which is not deleted, publishes the kind again")
			s.Await(t, suite.CRD, "", kindCRD(s, kind), isRecreated(before))
			s.AwaitDefinitions(t, "low", "mid", "top")
			watched.check(t)
		})
	}
}

// TestAnUnservedKindBlocksADeletion sets served to false in all versions of the leaf kind, before or
// during the deletion of the nest.
func TestAnUnservedKindBlocksADeletion(t *testing.T) {
	unserved := strings.Replace(leafKind, "served: true", "served: false", 1)
	awaitReported := func(t *testing.T, s suite.Suite) {
		t.Helper()
		for _, kind := range layers {
			s.Await(t, s.Kind(kind), s.NS, "x", isBlocked("objects of kind Leaf", report.KindUnavailable, "Leaf"))
		}
	}
	t.Run("while the deletion of a leaf is blocked, and is served again", func(t *testing.T) {
		s := newSuite(t)
		buildBlocked(t, s)
		s.Apply(t, unserved)
		awaitReported(t, s)
		s.Apply(t, leafKind)
		awaitServed(t, s, leaf(s))
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		setFinalizers(t, s, leaf(s), "x-leaf")
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	t.Run("before the deletion", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		s.Apply(t, unserved)
		s.Await(t, s.Kind("Low"), s.NS, "x", isWaiting("WaitingForKind", "Leaf"))
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitReported(t, s)
		s.Apply(t, leafKind)
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	for name, wait := range map[string]bool{"and is deleted, with its objects": false, "and is deleted after its instance has reported it": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			s.Apply(t, unserved)
			if wait {
				s.Await(t, s.Kind("Low"), s.NS, "x", isWaiting("WaitingForKind", "Leaf"))
			}
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			awaitReported(t, s)
			s.DeleteCRD(t, leafCRD(s))
			awaitKindGone(t, s)
			awaitNestGone(t, s)
		})
	}
	t.Run("and is the kind of a layer", func(t *testing.T) {
		s := newSuite(t)
		buildBlocked(t, s)
		patch := []byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`)
		if _, err := s.Resource(t, suite.CRD, "").Patch(t.Context(), kindCRD(s, "Mid"), types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Log("the definition sets served to true again")
		s.Await(t, suite.CRD, "", kindCRD(s, "Mid"), func(o *unstructured.Unstructured) error {
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			if versions[0].(map[string]any)["served"] != true {
				return errors.New("is not served")
			}
			return nil
		})
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		setFinalizers(t, s, leaf(s), "x-leaf")
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
}
