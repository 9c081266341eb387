package deletion

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// keeping is a composite with a ConfigMap of each policy.
var keeping = suite.XRD("v2", "Keeping", "", "", "scope: Namespaced") + "---" +
	suite.Composition("keeping", "Keeping", suite.PatchAndTransform(`
      - name: gone
        base: {apiVersion: v1, kind: ConfigMap, metadata: {name: x-gone}}
        readinessChecks: [{type: None}]
      - name: orphan
        base: {apiVersion: v1, kind: ConfigMap, metadata: {name: x-orphan, annotations: {espalier.dev/on-delete: Orphan}}}
        readinessChecks: [{type: None}]
      - name: retained
        base: {apiVersion: v1, kind: ConfigMap, metadata: {name: x-retained, annotations: {espalier.dev/on-delete: Retain}}}
        readinessChecks: [{type: None}]
`)) + `---
apiVersion: $GROUP/v1alpha1
kind: Keeping
metadata: {name: x, namespace: $NS}
spec: {}
`

// createComposedKeeper creates a composite with a composed resource of each policy.
func createComposedKeeper(t *testing.T) suite.Suite {
	t.Helper()
	s := newSuite(t)
	s.Apply(t, keeping)
	s.AwaitReady(t, s.Kind("Keeping"), s.NS, "x")
	return s
}

// awaitUncollected waits until the garbage collector no longer deletes ConfigMaps with their
// composite.
func awaitUncollected(t *testing.T, s suite.Suite, names ...string) {
	t.Helper()
	for _, name := range names {
		s.Await(t, suite.ConfigMap, s.NS, name, func(o *unstructured.Unstructured) error {
			if len(o.GetOwnerReferences()) > 0 {
				return errors.New("it has an owner")
			}
			return nil
		})
	}
}

// TestTheGarbageCollectorKeepsRetainedResources deletes a composite that retains or orphans some or
// all of its composed resources, in the background and in the foreground.
func TestTheGarbageCollectorKeepsRetainedResources(t *testing.T) {
	for name, tc := range map[string]struct {
		policy     string // of the composite itself, in an annotation
		kept       []string
		gone       []string
		isOrphaned []string
	}{
		"as annotated on the composed resources": {kept: []string{"x-orphan", "x-retained"}, gone: []string{"x-gone"}, isOrphaned: []string{"x-orphan"}},
		"all are orphaned that aren't retained":  {policy: "Orphan", kept: []string{"x-gone", "x-orphan", "x-retained"}, isOrphaned: []string{"x-gone", "x-orphan"}},
		"all are retained":                       {policy: "Retain", kept: []string{"x-gone", "x-orphan", "x-retained"}},
	} {
		for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				s := createComposedKeeper(t)
				composite := s.Get(t, s.Kind("Keeping"), s.NS, "x")
				if tc.policy != "" {
					annotate(t, s, s.Kind("Keeping"), "x", "espalier.dev/deletion-policy", tc.policy)
				}
				if policy == metav1.DeletePropagationForeground {
					awaitUncollected(t, s, tc.kept...)
				}
				deleteWith(t, s, "Keeping", policy)
				s.AwaitGone(t, s.Kind("Keeping"), s.NS, "x")
				awaitCollector(t, s, composite)
				for _, name := range tc.gone {
					s.AwaitGone(t, suite.ConfigMap, s.NS, name)
				}
				for _, name := range tc.kept {
					if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, name)); err != nil {
						t.Errorf("%s %v", name, err)
					}
				}
				for _, name := range tc.isOrphaned {
					if err := isUnlabelled(s.Get(t, suite.ConfigMap, s.NS, name)); err != nil {
						t.Errorf("%s %v", name, err)
					}
				}
			})
		}
	}
}

// TestACompositeAdoptsRetainedResources deletes a composite that retains all resources, and creates
// another of its name without that policy.
func TestACompositeAdoptsRetainedResources(t *testing.T) {
	s := createComposedKeeper(t)
	annotate(t, s, s.Kind("Keeping"), "x", "espalier.dev/deletion-policy", "Retain")
	before := s.Get(t, suite.ConfigMap, s.NS, "x-gone")
	s.Delete(t, s.Kind("Keeping"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Keeping"), s.NS, "x")
	s.Apply(t, keeping)
	s.AwaitReady(t, s.Kind("Keeping"), s.NS, "x")
	if o := s.Get(t, suite.ConfigMap, s.NS, "x-gone"); o.GetUID() != before.GetUID() || len(o.GetOwnerReferences()) != 2 {
		t.Errorf("x-gone is not adopted: %v", o.Object["metadata"])
	}
	s.Delete(t, s.Kind("Keeping"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Keeping"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-gone")
}

// TestTheGarbageCollectorKeepsProtectedObjects deletes composites that are protected, or have a
// protected composed resource.
func TestTheGarbageCollectorKeepsProtectedObjects(t *testing.T) {
	t.Run("a composed resource", func(t *testing.T) {
		s := createComposedKeeper(t)
		annotate(t, s, suite.ConfigMap, "x-gone", "espalier.dev/protect", "holds the ledger")
		awaitUncollected(t, s, "x-gone")
		deleteWith(t, s, "Keeping", metav1.DeletePropagationForeground)
		s.Await(t, s.Kind("Keeping"), s.NS, "x", reportsBlocker("x-gone", report.Protected, "holds the ledger"))
		if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, "x-gone")); err != nil {
			t.Errorf("x-gone %v", err)
		}
		annotate(t, s, suite.ConfigMap, "x-gone", "espalier.dev/protect", nil)
		s.AwaitGone(t, s.Kind("Keeping"), s.NS, "x")
		s.AwaitGone(t, suite.ConfigMap, s.NS, "x-gone")
	})
	t.Run("a composite", func(t *testing.T) {
		s := createComposedKeeper(t)
		annotate(t, s, s.Kind("Keeping"), "x", "espalier.dev/protect", "holds the ledger")
		awaitUncollected(t, s, "x-gone", "x-orphan", "x-retained")
		deleteWith(t, s, "Keeping", metav1.DeletePropagationForeground)
		s.Await(t, s.Kind("Keeping"), s.NS, "x", reportsBlocker("x", report.Protected, "holds the ledger"))
		for _, name := range []string{"x-gone", "x-orphan", "x-retained"} {
			if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, name)); err != nil {
				t.Errorf("%s %v", name, err)
			}
		}
		annotate(t, s, s.Kind("Keeping"), "x", "espalier.dev/protect", nil)
		s.AwaitGone(t, s.Kind("Keeping"), s.NS, "x")
		s.AwaitGone(t, suite.ConfigMap, s.NS, "x-gone")
	})
	t.Run("a composed resource that is released by force", func(t *testing.T) {
		s := createComposedKeeper(t)
		composite := s.Get(t, s.Kind("Keeping"), s.NS, "x")
		annotate(t, s, suite.ConfigMap, "x-gone", "espalier.dev/protect", "holds the ledger")
		s.Delete(t, s.Kind("Keeping"), s.NS, "x")
		s.Await(t, s.Kind("Keeping"), s.NS, "x", reportsBlocker("x-gone", report.Protected, "holds the ledger"))
		annotate(t, s, s.Kind("Keeping"), "x", "espalier.dev/force-delete", "gone")
		s.AwaitGone(t, s.Kind("Keeping"), s.NS, "x")
		awaitCollector(t, s, composite)
		if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, "x-gone")); err != nil {
			t.Errorf("x-gone %v", err)
		}
	})
}

// TestAClaimRetainsItsComposite deletes a claim with the policy Retain.
func TestAClaimRetainsItsComposite(t *testing.T) {
	s := newSuite(t)
	compose(t, s)
	composite := nests["composites"].layers[2]
	name := composite.only(t, s).GetName()
	annotate(t, s, s.Kind("Top"), "x", "espalier.dev/deletion-policy", "Retain")
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
	if o := s.Get(t, s.Kind("XTop"), "", name); o == nil || o.GetDeletionTimestamp() != nil || o.GetLabels()["crossplane.io/claim-name"] != "x" {
		t.Errorf("the composite is changed: %v", o)
	}

	t.Log("another claim of the name gets a composite of its own, and does not change the retained one")
	s.Apply(t, topInstance+"spec: {}\n")
	s.Await(t, s.Kind("Top"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if report.Read(o).Conditions.IsTrue("Synced") {
			return nil
		}
		return errors.New("is not synced")
	})
	if err := isNotTerminating(s.Get(t, s.Kind("XTop"), "", name)); err != nil {
		t.Errorf("the retained composite %v", err)
	}
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
	if err := isNotTerminating(s.Get(t, s.Kind("XTop"), "", name)); err != nil {
		t.Errorf("the retained composite %v", err)
	}
	s.Delete(t, s.Kind("XTop"), "", name)
	nests["composites"].awaitGone(t, s)
}
