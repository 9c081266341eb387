package deletion

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestTheInstanceIsDeletedLast deletes a nest in the background and in the foreground, while a
// finalizer blocks its lowest object: each layer stays until all layers below it are deleted, also
// where the garbage collector deletes composed resources in the foreground.
func TestTheInstanceIsDeletedLast(t *testing.T) {
	tops := map[string]layered{"graphs": nests["graphs"], "composites": nests["composites"], "composites without a claim": unclaimed}
	for dialect, nest := range tops {
		for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
			t.Run(dialect+"/"+string(policy), func(t *testing.T) {
				s := newSuite(t)
				nest.build(t, s)
				setFinalizers(t, s, leaf(s), "x-below", "example.com/guard")
				deleteWith(t, s, nest.top().kind, policy)
				nest.awaitEveryLayer(t, s, nest.blocked("x-below", report.HeldByFinalizer, "example.com/guard"))
				s.AwaitGone(t, leaf(s), s.NS, "x-leaf")
				nest.release(t, s, "x-below")
			})
		}
	}
}

// release removes the finalizer of a leaf, and checks that no layer below the top exists when the
// top is deleted.
func (n layered) release(t *testing.T, s suite.Suite, held string) {
	t.Helper()
	order := make(chan error, 1)
	go func() { order <- n.deletedInOrder(t, s) }()
	setFinalizers(t, s, leaf(s), held)
	if err := <-order; err != nil {
		t.Error(err)
	}
	n.awaitGone(t, s)
}

// deletedInOrder waits until the top is deleted, and checks that nothing below it exists then.
func (n layered) deletedInOrder(t *testing.T, s suite.Suite) error {
	return testkit.AwaitList(t.Context(), n.top().client(t, s), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		if len(objects) > 0 {
			return errors.New("the top is still there")
		}
		for _, l := range n.layers[:len(n.layers)-1] {
			list, err := l.client(t, s).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) > 0 {
				t.Errorf("the top is deleted before %s: %v", l.kind, err)
			}
		}
		list, err := s.Resource(t, leaf(s), s.NS).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) > 0 {
			t.Errorf("the top is deleted before its leaves: %v", err)
		}
		return nil
	})
}

// deleteWith deletes the object x of one of the test's kinds with a propagation policy.
func deleteWith(t *testing.T, s suite.Suite, kind string, policy metav1.DeletionPropagation) {
	t.Helper()
	s.DeleteWith(t, s.Kind(kind), s.NS, "x", policy)
}

// TestOrphanedChildrenLoseOurLabels deletes an instance with the policy Orphan.
func TestOrphanedChildrenLoseOurLabels(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	before := s.Get(t, leaf(s), s.NS, "x-leaf")
	deleteWith(t, s, "Low", metav1.DeletePropagationOrphan)
	s.AwaitEvent(t, "x", "Orphaned", "x-leaf", "x-below")
	// The nest recreates its Low, which does not own the orphaned leaves.
	for _, name := range []string{"x-leaf", "x-below"} {
		s.Await(t, leaf(s), s.NS, name, func(o *unstructured.Unstructured) error {
			if o == nil || o.GetDeletionTimestamp() != nil {
				return errors.New("is deleted")
			}
			return isUnlabelled(o)
		})
	}
	if got := s.Get(t, leaf(s), s.NS, "x-leaf"); got.GetUID() != before.GetUID() {
		t.Error("the leaf was recreated")
	}
}

// isUnlabelled checks that an object has no label or annotation of an instance.
func isUnlabelled(o *unstructured.Unstructured) error {
	for key := range o.GetLabels() {
		if strings.Contains(key, "kro.run/") || strings.Contains(key, "applyset") || strings.Contains(key, "managed-by") || strings.HasPrefix(key, "crossplane.io/") {
			return fmt.Errorf("has the label %s", key)
		}
	}
	for key := range o.GetAnnotations() {
		if strings.Contains(key, "kro.run/") || strings.Contains(key, "espalier.dev/") || strings.HasPrefix(key, "crossplane.io/") {
			return fmt.Errorf("has the annotation %s", key)
		}
	}
	if refs := o.GetOwnerReferences(); len(refs) > 0 {
		return fmt.Errorf("has the owner %v", refs)
	}
	return nil
}

// TestAnOrphanedInstanceIsReconciled deletes the top of a nest with the policy Orphan: the orphan is
// an instance with children of its own, and no child of another instance.
func TestAnOrphanedInstanceIsReconciled(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	deleteWith(t, s, "Top", metav1.DeletePropagationOrphan)
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
	mid := s.AwaitReady(t, s.Kind("Mid"), s.NS, "x")
	if mid.GetLabels()["applyset.kubernetes.io/part-of"] != "" || mid.GetLabels()["kro.run/node-id"] != "" {
		t.Errorf("the orphan has labels of a child: %v", mid.GetLabels())
	}
	if mid.GetLabels()["applyset.kubernetes.io/id"] == "" || mid.GetLabels()["kro.run/owned"] != "true" {
		t.Errorf("the orphan is no instance any more: %v", mid.GetLabels())
	}
	s.Delete(t, s.Kind("Mid"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Mid"), s.NS, "x")
	s.AwaitGone(t, leaf(s), s.NS, "x-below")
}
