package crash

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// TestADeletionDuringDowntimeKeepsItsPolicy deletes instances while no
// controller runs, and waits until the garbage collector has removed what told
// that their children are to stay. The controllers find out all the same.
func TestADeletionDuringDowntimeKeepsItsPolicy(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	stop := steps.Run(t, config)
	steps.Define(t, w)
	ns, elsewhere := testkit.Namespace(t, config), testkit.Namespace(t, config)
	for _, at := range []string{ns, elsewhere} {
		steps.Apply(steps.Chain)(t, w, at)
		steps.AwaitReady(steps.Kind("Chain"), "one")(t, w, at)
	}
	stop()
	for at, policy := range map[string]metav1.DeletionPropagation{ns: metav1.DeletePropagationOrphan, elsewhere: metav1.DeletePropagationBackground} {
		w.DeleteWith(t, steps.Kind("Chain"), at, "x", policy)
		w.Await(t, steps.Kind("Chain"), at, "x", func(o *unstructured.Unstructured) error {
			if o.GetDeletionTimestamp() == nil || slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents) {
				return errors.New("the garbage collector hasn't been here")
			}
			return nil
		})
		o := w.Get(t, steps.Kind("Chain"), at, "x")
		o.SetLabels(map[string]string{"touched": "later"}) // its last revision is another's
		if _, err := w.Resource(t, steps.Kind("Chain"), at).Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stop = steps.Run(t, config)
	defer stop()
	for _, at := range []string{ns, elsewhere} {
		w.AwaitGone(t, steps.Kind("Chain"), at, "x")
	}
	for _, name := range []string{"x-a", "x-b", "x-c", "x-d", "x-e"} {
		if o := w.Get(t, suite.ConfigMap, ns, name); o == nil || o.GetLabels()["kro.run/owned"] != "" {
			t.Errorf("the orphan %s: %s", name, testkit.JSON(o))
		}
		if o := w.Get(t, suite.ConfigMap, elsewhere, name); o != nil {
			t.Errorf("%s is left of what was deleted", name)
		}
	}
}

// TestOrphansAreKeptAfterLaterWrites is like the test of orphaning that
// nobody saw, but another client writes to the instance twenty times meanwhile, as
// a controller with a heartbeat does in twenty seconds.
func TestOrphansAreKeptAfterLaterWrites(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	stop := steps.Run(t, config)
	steps.Define(t, w)
	ns := testkit.Namespace(t, config)
	steps.Apply(steps.Chain)(t, w, ns)
	steps.AwaitReady(steps.Kind("Chain"), "one")(t, w, ns)
	stop()
	w.DeleteWith(t, steps.Kind("Chain"), ns, "x", metav1.DeletePropagationOrphan)
	w.Await(t, steps.Kind("Chain"), ns, "x", func(o *unstructured.Unstructured) error {
		if o.GetDeletionTimestamp() == nil || slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents) {
			return errors.New("the garbage collector hasn't been here")
		}
		return nil
	})
	for i := range 20 {
		o := w.Get(t, steps.Kind("Chain"), ns, "x")
		o.SetLabels(map[string]string{"beat": fmt.Sprint(i)})
		if _, err := w.Resource(t, steps.Kind("Chain"), ns).Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stop = steps.Run(t, config)
	defer stop()
	w.AwaitGone(t, steps.Kind("Chain"), ns, "x")
	for _, name := range []string{"x-a", "x-b", "x-c", "x-d", "x-e"} {
		if o := w.Get(t, suite.ConfigMap, ns, name); o == nil {
			t.Errorf("%s was to be left in place, and is deleted", name)
		}
	}
}

// TestACompositeDeletionDuringDowntimeKeepsItsPolicy deletes composites while no
// controller runs, by each policy.
func TestACompositeDeletionDuringDowntimeKeepsItsPolicy(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	stop := steps.Run(t, config)
	steps.Define(t, w)
	at := map[metav1.DeletionPropagation]string{}
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		at[policy] = testkit.Namespace(t, config)
		steps.All(steps.Apply(steps.Five), steps.AwaitComposed("one", 5, 0))(t, w, at[policy])
	}
	stop()
	for policy, ns := range at {
		steps.Delete(steps.Kind("Five"), policy)(t, w, ns)
		w.Await(t, steps.Kind("Five"), ns, "x", func(o *unstructured.Unstructured) error {
			if finalizers := o.GetFinalizers(); len(finalizers) != 1 {
				return fmt.Errorf("the garbage collector hasn't been here: %v", finalizers)
			}
			return nil
		})
	}
	defer steps.Run(t, config)()
	for policy, ns := range at {
		w.AwaitGone(t, steps.Kind("Five"), ns, "x")
		list := w.List(t, suite.ConfigMap, ns, "")
		left := 0
		for i := range list {
			if o := &list[i]; o.GetName() != "kube-root-ca.crt" {
				left++
				if len(o.GetLabels())+len(o.GetAnnotations())+len(o.GetOwnerReferences()) > 0 {
					t.Errorf("%s: %s is marked: %v", policy, o.GetName(), o.Object["metadata"])
				}
			}
		}
		if want := map[metav1.DeletionPropagation]int{metav1.DeletePropagationOrphan: 5}[policy]; left != want {
			t.Errorf("%s: there are %d left, not %d", policy, left, want)
		}
	}
}
