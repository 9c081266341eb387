package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// applyBucket applies a bucket with the given annotations and further fields of its spec,
// both as YAML in one line.
func applyBucket(t *testing.T, s suite.Suite, name, annotations, spec string) {
	t.Helper()
	s.Apply(t, fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: %s, namespace: $NS, annotations: {%s}}\nspec: {forProvider: {}%s}\n", name, annotations, spec))
}

func annotate(t *testing.T, s suite.Suite, name, key string, value any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Patch(t, bucket, s.NS, name, string(body))
}

// syncedBecause checks the reason of Synced and what its message contains.
func syncedBecause(reason string, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if err := is(reason)(o); err != nil {
			return err
		}
		for _, word := range words {
			if err := contains(testkit.ConditionMessage(o, "Synced"), word); err != nil {
				return err
			}
		}
		return nil
	}
}

func isNamed(name string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if got := o.GetAnnotations()["crossplane.io/external-name"]; got != name {
			return fmt.Errorf("the external name is %q", got)
		}
		return is("ReconcileSuccess")(o)
	}
}

func TestTheExternalNameIsRestored(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	applyBucket(t, s, name, "", "")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	for _, value := range []any{nil, "another"} {
		annotate(t, s, name, "crossplane.io/external-name", value)
		s.Await(t, bucket, s.NS, name, isNamed(name))
	}
	s.AwaitEvent(t, name, "ExternalNameRestored", "another", name)
	deleteBucket(t, s, name)
}

func TestALostBindingIsRebuilt(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	applyBucket(t, s, name, "", "")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	before := inCloud(t, name)
	for _, lost := range bindings(t, s) {
		s.Delete(t, binding, "", lost)
	}
	applyBucket(t, s, name, "", ", managementPolicies: [Observe, Create, Update, Delete]")
	s.AwaitList(t, binding, "", "", func(map[string]*unstructured.Unstructured) error {
		if len(bindings(t, s)) == 0 {
			return errors.New("there is no Binding")
		}
		return nil
	})
	s.Await(t, bucket, s.NS, name, isNamed(name))
	if after := inCloud(t, name); after == nil || after.Serial != before.Serial {
		t.Errorf("another bucket was made: %+v", after)
	}
	deleteBucket(t, s, name)
}

func TestExistingResourcesAreAdoptedOnlyOnRequest(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	if _, err := sky.Call(cloud.Request{Verb: cloud.VerbCreate, Key: key(name)}); err != nil {
		t.Fatal(err)
	}
	applyBucket(t, s, name, "", "")
	s.Await(t, bucket, s.NS, name, syncedBecause("Conflict", "exists already", "espalier.dev/adopt"))
	annotate(t, s, name, "espalier.dev/adopt", "IfUnmarked")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
}

func TestAnInvalidSetOfPoliciesIsReported(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	applyBucket(t, s, name, "", ", managementPolicies: [Observe, Update, Delete]")
	s.Await(t, bucket, s.NS, name, syncedBecause("ReconcileError", "Observe, Update, Delete", "add Create"))
	if inCloud(t, name) != nil {
		t.Error("it was made all the same")
	}
	applyBucket(t, s, name, "", ", managementPolicies: [Observe]")
	s.Await(t, bucket, s.NS, name, syncedBecause("ReconcileError", "does not exist"))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
}

func TestPausedResourcesAreLeftAlone(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	applyBucket(t, s, name, "crossplane.io/paused: 'true'", "")
	s.Await(t, bucket, s.NS, name, syncedBecause("ReconcilePaused", "crossplane.io/paused"))
	if inCloud(t, name) != nil {
		t.Error("it was made all the same")
	}
	annotate(t, s, name, "crossplane.io/paused", nil)
	s.Await(t, bucket, s.NS, name, isNamed(name))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
}

// TestReferencesOfPausedResourcesAreNotResolved pauses a subnet that refers to a network that
// does not exist.
func TestReferencesOfPausedResourcesAreNotResolved(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Subnet\nmetadata: {name: lost, namespace: $NS, annotations: {crossplane.io/paused: 'true'}}\nspec: {forProvider: {cidr: 10.0.1.0/24, networkIDRef: {name: nowhere}}}\n")
	subnet := v1alpha1.GroupVersion.WithKind("Subnet")
	s.Await(t, subnet, s.NS, "lost", syncedBecause("ReconcilePaused", "crossplane.io/paused"))
	s.Delete(t, subnet, s.NS, "lost")
	s.AwaitGone(t, subnet, s.NS, "lost")
}

// TestObservedResourcesAreAdoptedAndDeleted first observes a resource, and then allows all
// actions on it.
func TestObservedResourcesAreAdoptedAndDeleted(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	applyBucket(t, s, name, "", ", managementPolicies: [Observe, Create]")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if inCloud(t, name) == nil {
		t.Fatal("it was to stay")
	}
	applyBucket(t, s, name, "", ", managementPolicies: [Observe]")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	applyBucket(t, s, name, "", ", managementPolicies: ['*']")
	s.Await(t, bucket, s.NS, name, func(o *unstructured.Unstructured) error {
		if is, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); is != o.GetGeneration() {
			return fmt.Errorf("it is at %d", is)
		}
		return isNamed(name)(o)
	})
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if inCloud(t, name) != nil {
		t.Error("it is left")
	}
}

// TestObserveOnlyResourcesLeaveNothing takes away by force a managed resource that could
// neither make its external resource nor delete it: it keeps no name from anybody.
func TestObserveOnlyResourcesLeaveNothing(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	if _, err := sky.Call(cloud.Request{Verb: cloud.VerbCreate, Key: key(name)}); err != nil {
		t.Fatal(err)
	}
	applyBucket(t, s, name, "", ", managementPolicies: [Observe]")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	kept := bindings(t, s)
	if len(kept) != 1 {
		t.Fatalf("there are the Bindings %v", kept)
	}
	annotate(t, s, name, "crossplane.io/paused", "true") // so that it is not taken away in the usual way
	s.Await(t, bucket, s.NS, name, syncedBecause("ReconcilePaused"))
	s.Delete(t, bucket, s.NS, name)
	s.Patch(t, bucket, s.NS, name, `{"metadata":{"finalizers":null}}`)
	s.AwaitGone(t, bucket, s.NS, name)
	s.AwaitGone(t, binding, "", kept[0])
	if inCloud(t, name) == nil {
		t.Error("the external resource has gone with it")
	}
}
