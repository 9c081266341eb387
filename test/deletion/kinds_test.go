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

// TestTheLeafKindIsDeletedWithTheNest deletes the kind of the lowest objects
// while one of them is held, before the nest is deleted or after.
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
			saw := watchLayers(t, s, isNotInError)
			first(t, s, func() {
				s.Delete(t, suite.CRD, "", leafCRD(s))
				awaitGone(t, s, leaf(s), "x-below")
			}, func() {
				s.Delete(t, s.Kind("Top"), s.NS, "x")
				awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			})
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			setFinalizers(t, s, leaf(s), "x-leaf")
			awaitNestGone(t, s)
			s.AwaitGone(t, suite.CRD, "", leafCRD(s))
			saw.check(t)
		})
	}
}

// TestTheLeafKindIsDeletedUnderALivingNest takes the kind away from which the
// lowest instance makes its objects.
func TestTheLeafKindIsDeletedUnderALivingNest(t *testing.T) {
	t.Run("and the nest is deleted after it", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		saw := watchLayers(t, s, isNotInError)
		s.Delete(t, suite.CRD, "", leafCRD(s))
		s.AwaitGone(t, suite.CRD, "", leafCRD(s))
		s.Await(t, s.Kind("Low"), s.NS, "x", isWaiting("WaitingForKind", "Leaf"))
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitNestGone(t, s)
		saw.check(t)
	})
	t.Run("and comes back", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		saw := watchLayers(t, s, isNotInError)
		s.Delete(t, suite.CRD, "", leafCRD(s))
		s.AwaitGone(t, suite.CRD, "", leafCRD(s))
		s.Await(t, s.Kind("Low"), s.NS, "x", isWaiting("WaitingForKind", "Leaf"))
		s.Apply(t, leafKind)
		awaitServed(t, s, leaf(s))
		s.Await(t, leaf(s), s.NS, "x-leaf", isPresent)
		s.AwaitReady(t, s.Kind("Low"), s.NS, "x")
		s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
		deleteNest(t, s, saw)
	})
}

// TestAComposedKindIsDeletedUnderALivingNest deletes the kind of a middle layer,
// and with it that layer's instances: its definition publishes the kind again, and
// the layer above recreates its instance.
func TestAComposedKindIsDeletedUnderALivingNest(t *testing.T) {
	for _, kind := range []string{"Low", "Mid"} {
		t.Run(kind, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			was := s.Get(t, s.Kind(kind), s.NS, "x")
			before := s.Get(t, suite.CRD, "", kindCRD(s, kind))
			saw := watchLayers(t, s, isNotInError)
			s.Delete(t, suite.CRD, "", kindCRD(s, kind))
			s.Await(t, suite.CRD, "", kindCRD(s, kind), isRecreated(before))
			awaitServed(t, s, s.Kind(kind))
			s.Await(t, s.Kind(kind), s.NS, "x", isRecreated(was))
			s.AwaitReady(t, s.Kind(kind), s.NS, "x")
			s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
			deleteNest(t, s, saw)
		})
	}
}

// TestAComposedKindIsDeletedWhileTheNestIs deletes the kind of a layer, while the
// nest waits for a held leaf.
func TestAComposedKindIsDeletedWhileTheNestIs(t *testing.T) {
	for _, kind := range layers {
		t.Run(kind, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			setFinalizers(t, s, leaf(s), "x-leaf", guard)
			before := s.Get(t, suite.CRD, "", kindCRD(s, kind))
			saw := watchLayers(t, s, isNotInError)
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			s.Delete(t, suite.CRD, "", kindCRD(s, kind))
			s.Await(t, suite.CRD, "", kindCRD(s, kind), isTerminating)
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			setFinalizers(t, s, leaf(s), "x-leaf")
			awaitNestGone(t, s)
			t.Log("the definition, which lives, publishes the kind again")
			s.Await(t, suite.CRD, "", kindCRD(s, kind), isRecreated(before))
			s.AwaitDefinitions(t, "low", "mid", "top")
			saw.check(t)
		})
	}
}

// TestAKindIsNotServedInTheMiddle stops serving the leaf's kind, in all of its
// versions, before the nest is deleted or in the middle of it.
func TestAKindIsNotServedInTheMiddle(t *testing.T) {
	unserved := strings.Replace(leafKind, "served: true", "served: false", 1)
	unservedAll := func(t *testing.T, s suite.Suite) {
		t.Helper()
		for _, kind := range layers {
			s.Await(t, s.Kind(kind), s.NS, "x", isBlocked("objects of kind Leaf", report.KindUnavailable, "Leaf"))
		}
	}
	t.Run("while a leaf is held, and is served again", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		setFinalizers(t, s, leaf(s), "x-leaf", guard)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		s.Apply(t, unserved)
		unservedAll(t, s)
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
		unservedAll(t, s)
		s.Apply(t, leafKind)
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	t.Run("and is deleted then, with its objects", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		s.Apply(t, unserved)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		unservedAll(t, s)
		s.Delete(t, suite.CRD, "", leafCRD(s))
		awaitKindGone(t, s)
		awaitNestGone(t, s)
	})
	t.Run("and is deleted when nobody has seen its objects for a while", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		s.Apply(t, unserved)
		s.Await(t, s.Kind("Low"), s.NS, "x", isWaiting("WaitingForKind", "Leaf"))
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		unservedAll(t, s)
		s.Delete(t, suite.CRD, "", leafCRD(s))
		awaitKindGone(t, s)
		awaitNestGone(t, s)
	})
	t.Run("it is the kind of a layer", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		setFinalizers(t, s, leaf(s), "x-leaf", guard)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		patch := []byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`)
		if _, err := s.Resource(t, suite.CRD, "").Patch(t.Context(), kindCRD(s, "Mid"), types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Log("its definition serves it again by itself")
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
