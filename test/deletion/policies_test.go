package deletion

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// keeper has a node of each deletion policy, and a timeout.
const keeper = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-keeper}
spec:
  deletion: {timeout: 1s}
  schema: {apiVersion: v1alpha1, kind: Keeper, group: $GROUP, spec: {all: boolean | default=true}}
  resources:
    - id: gone
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-gone"}}
    - id: orphan
      deletionPolicy: Orphan
      includeWhen: ["${schema.spec.all}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-orphan"}}
    - id: retained
      deletionPolicy: Retain
      includeWhen: ["${schema.spec.all}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-retained"}}
`

const keeperInstance = "\napiVersion: $GROUP/v1alpha1\nkind: Keeper\nmetadata: {name: x, namespace: $NS}\n"

func createKeeper(t *testing.T) suite.Suite {
	t.Helper()
	s := newSuite(t)
	s.Apply(t, keeper)
	s.AwaitDefinitions(t, "keeper")
	s.Apply(t, keeperInstance)
	s.AwaitReady(t, s.Kind("Keeper"), s.NS, "x")
	return s
}

func isNotTerminating(o *unstructured.Unstructured) error {
	if o == nil || o.GetDeletionTimestamp() != nil {
		return errors.New("is deleted")
	}
	return nil
}

// TestEachNodeHasItsDeletionPolicy deletes an instance with a node of each policy.
func TestEachNodeHasItsDeletionPolicy(t *testing.T) {
	s := createKeeper(t)
	retained := s.Get(t, suite.ConfigMap, s.NS, "x-retained")
	s.Delete(t, s.Kind("Keeper"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Keeper"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-gone")
	if err := isUnlabelled(s.Await(t, suite.ConfigMap, s.NS, "x-orphan", isNotTerminating)); err != nil {
		t.Errorf("the orphan %v", err)
	}
	if o := s.Await(t, suite.ConfigMap, s.NS, "x-retained", isNotTerminating); o.GetLabels()["kro.run/node-id"] != "retained" {
		t.Errorf("the retained child has lost its labels: %v", o.GetLabels())
	}

	t.Log("another instance of the name adopts the retained child, and not the orphan")
	s.Apply(t, keeperInstance)
	s.Await(t, s.Kind("Keeper"), s.NS, "x", notReadyBecause("NotOwned", "x-orphan"))
	if o := s.Await(t, suite.ConfigMap, s.NS, "x-retained", isOwned(s, t)); o.GetUID() != retained.GetUID() {
		t.Error("the retained child was recreated")
	}
}

// isOwned checks that an object's owner is the current instance.
func isOwned(s suite.Suite, t *testing.T) func(*unstructured.Unstructured) error {
	uid := string(s.Get(t, s.Kind("Keeper"), s.NS, "x").GetUID())
	return func(o *unstructured.Unstructured) error {
		if o == nil || o.GetLabels()["kro.run/instance-id"] != uid {
			return errors.New("is not owned by the instance")
		}
		return nil
	}
}

// notReadyBecause checks the reason of Ready, and parts of its message.
func notReadyBecause(reason string, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		ready, _ := report.Read(o).Conditions.Get("Ready")
		if ready.Reason != reason {
			return errors.New("Ready has the reason " + ready.Reason + ": " + ready.Message)
		}
		return containsAll(ready.Message, words...)
	}
}

// TestPrunesFollowDeletionPolicies leaves out a node of each policy.
func TestPrunesFollowDeletionPolicies(t *testing.T) {
	s := createKeeper(t)
	s.Apply(t, keeperInstance+"spec: {all: false}\n")
	s.Await(t, suite.ConfigMap, s.NS, "x-orphan", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is deleted")
		}
		return isUnlabelled(o)
	})
	s.AwaitReady(t, s.Kind("Keeper"), s.NS, "x")
	if o := s.Await(t, suite.ConfigMap, s.NS, "x-retained", isNotTerminating); o.GetLabels()["kro.run/node-id"] != "retained" {
		t.Errorf("the retained child has lost its labels: %v", o.GetLabels())
	}
}

// TestAnInstanceOverridesDeletionPolicies sets policies in an annotation of the instance, all of
// which its definition allows.
func TestAnInstanceOverridesDeletionPolicies(t *testing.T) {
	s := createKeeper(t)
	s.Apply(t, strings.Replace(keeper, "spec:\n", "spec:\n  instanceOverrides: {deletionPolicy: All}\n", 1))
	s.Await(t, s.Kind("Keeper"), s.NS, "x", func(o *unstructured.Unstructured) error {
		return containsAll(o.GetAnnotations()["espalier.dev/deletion-defaults"], "overrides=deletionPolicy:All")
	})
	annotate(t, s, s.Kind("Keeper"), "x", "espalier.dev/deletion-policy", "Orphan, retained=Delete")
	s.Delete(t, s.Kind("Keeper"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Keeper"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-retained")
	for _, name := range []string{"x-gone", "x-orphan"} {
		if err := isUnlabelled(s.Await(t, suite.ConfigMap, s.NS, name, isNotTerminating)); err != nil {
			t.Errorf("%s %v", name, err)
		}
	}
}

// TestAnInvalidDeletionPolicyBlocksTheDeletion has an invalid policy in the annotation of an instance:
// no child is deleted until it is corrected.
func TestAnInvalidDeletionPolicyBlocksTheDeletion(t *testing.T) {
	s := createKeeper(t)
	annotate(t, s, s.Kind("Keeper"), "x", "espalier.dev/deletion-policy", "gone=Keep")
	s.Delete(t, s.Kind("Keeper"), s.NS, "x")
	s.Await(t, s.Kind("Keeper"), s.NS, "x", isBlocked("Keeper "+s.NS+"/x", report.Protected, "gone=Keep", "Delete, Orphan or Retain"))
	if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, "x-gone")); err != nil {
		t.Errorf("x-gone %v", err)
	}
	annotate(t, s, s.Kind("Keeper"), "x", "espalier.dev/deletion-policy", "gone = retain")
	s.AwaitGone(t, s.Kind("Keeper"), s.NS, "x")
	o := s.Await(t, suite.ConfigMap, s.NS, "x-gone", isNotTerminating)
	if o.GetLabels()["kro.run/node-id"] != "gone" || o.GetAnnotations()["espalier.dev/retained-from"] == "" {
		t.Errorf("a child that only the annotation retains is not annotated: %v", o.GetAnnotations())
	}
}

// TestASlowDeletionIsStalledAndContinues has a definition with a timeout of a second, and a finalizer
// that blocks a child for longer.
func TestASlowDeletionIsStalledAndContinues(t *testing.T) {
	s := createKeeper(t)
	setFinalizers(t, s, suite.ConfigMap, "x-gone", "example.com/guard")
	s.Delete(t, s.Kind("Keeper"), s.NS, "x")
	s.Await(t, s.Kind("Keeper"), s.NS, "x", func(o *unstructured.Unstructured) error {
		stalled, _ := report.Read(o).Conditions.Get("Stalled")
		if stalled.Status != "True" || stalled.Reason != "DeletionTimeout" {
			return errors.New("is not stalled")
		}
		return containsAll(stalled.Message, "example.com/guard", "x-gone")
	})
	s.AwaitEvent(t, "x", "DeletionTimeout", "0 of 1 are gone")
	setFinalizers(t, s, suite.ConfigMap, "x-gone")
	s.AwaitGone(t, s.Kind("Keeper"), s.NS, "x")
}
