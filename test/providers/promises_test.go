package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// put applies a bucket with the given annotations and further fields of its spec,
// both as YAML in one line.
func put(t *testing.T, s suite.Suite, name, annotations, spec string) {
	t.Helper()
	s.Put(t, fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: %s, namespace: $NS, annotations: {%s}}\nspec: {forProvider: {}%s}\n", name, annotations, spec))
}

func annotate(t *testing.T, s suite.Suite, name, key string, value any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Patch(t, bucket, s.NS, name, string(body))
}

// says checks the reason of Synced and what its message contains.
func says(reason string, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if err := is(reason)(o); err != nil {
			return err
		}
		for _, word := range words {
			if err := contains(testkit.Message(o, "Synced"), word); err != nil {
				return err
			}
		}
		return nil
	}
}

func named(name string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if got := o.GetAnnotations()["crossplane.io/external-name"]; got != name {
			return fmt.Errorf("the external name is %q", got)
		}
		return is("ReconcileSuccess")(o)
	}
}

func TestTheExternalNameIsPutBack(t *testing.T) {
	s := suite.Begin(t)
	name := "b-" + s.NS
	put(t, s, name, "", "")
	s.Await(t, bucket, s.NS, name, named(name))
	for _, value := range []any{nil, "another"} {
		annotate(t, s, name, "crossplane.io/external-name", value)
		s.Await(t, bucket, s.NS, name, named(name))
	}
	s.AwaitEvent(t, name, "ExternalNameRestored", "another", name)
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if left := inCloud(t, name); left != nil {
		t.Errorf("it is left in the cloud: %+v", left)
	}
}

func TestALostBindingIsRebuilt(t *testing.T) {
	s := suite.Begin(t)
	name := "b-" + s.NS
	put(t, s, name, "", "")
	s.Await(t, bucket, s.NS, name, named(name))
	before := inCloud(t, name)
	for _, lost := range bindings(t, s) {
		s.Delete(t, binding, "", lost)
	}
	put(t, s, name, "", ", managementPolicies: [Observe, Create, Update, Delete]")
	err := testkit.AwaitAny(t.Context(), s.Of(t, binding, ""), metav1.ListOptions{}, func(map[string]*unstructured.Unstructured) error {
		if len(bindings(t, s)) == 0 {
			return errors.New("there is no Binding")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	s.Await(t, bucket, s.NS, name, named(name))
	if after := inCloud(t, name); after == nil || after.Serial != before.Serial {
		t.Errorf("another bucket was made: %+v", after)
	}
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if left := inCloud(t, name); left != nil {
		t.Errorf("it is left in the cloud: %+v", left)
	}
}

func TestWhatIsThereIsAdoptedOnlyWhereSomebodySaysSo(t *testing.T) {
	s := suite.Begin(t)
	name := "b-" + s.NS
	if _, err := sky.Call(cloud.Request{Verb: cloud.VerbCreate, Key: key(name)}); err != nil {
		t.Fatal(err)
	}
	put(t, s, name, "", "")
	s.Await(t, bucket, s.NS, name, says("Conflict", "exists already", "espalier.dev/adopt"))
	annotate(t, s, name, "espalier.dev/adopt", "IfUnmarked")
	s.Await(t, bucket, s.NS, name, named(name))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
}

func TestAnIllegalSetOfPoliciesIsRefusedWithWords(t *testing.T) {
	s := suite.Begin(t)
	name := "b-" + s.NS
	put(t, s, name, "", ", managementPolicies: [Observe, Update, Delete]")
	s.Await(t, bucket, s.NS, name, says("ReconcileError", "Observe, Update, Delete", "add Create"))
	if inCloud(t, name) != nil {
		t.Error("it was made all the same")
	}
	put(t, s, name, "", ", managementPolicies: [Observe]")
	s.Await(t, bucket, s.NS, name, says("ReconcileError", "does not exist"))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
}

func TestWhatIsPausedIsLeftAlone(t *testing.T) {
	s := suite.Begin(t)
	name := "b-" + s.NS
	put(t, s, name, "crossplane.io/paused: 'true'", "")
	s.Await(t, bucket, s.NS, name, says("ReconcilePaused", "crossplane.io/paused"))
	if inCloud(t, name) != nil {
		t.Error("it was made all the same")
	}
	annotate(t, s, name, "crossplane.io/paused", nil)
	s.Await(t, bucket, s.NS, name, named(name))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
}

// TestWhatIsPausedIsNotResolved pauses what refers to something that isn't there.
func TestWhatIsPausedIsNotResolved(t *testing.T) {
	s := suite.Begin(t)
	s.Put(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Subnet\nmetadata: {name: lost, namespace: $NS, annotations: {crossplane.io/paused: 'true'}}\nspec: {forProvider: {cidr: 10.0.1.0/24, networkIDRef: {name: nowhere}}}\n")
	subnet := v1alpha1.GroupVersion.WithKind("Subnet")
	s.Await(t, subnet, s.NS, "lost", says("ReconcilePaused", "crossplane.io/paused"))
	s.Delete(t, subnet, s.NS, "lost")
	s.AwaitGone(t, subnet, s.NS, "lost")
}

// TestWhatWasOnlyLookedAtIsDeleted takes over, as people do, what was looked at first.
func TestWhatWasOnlyLookedAtIsDeleted(t *testing.T) {
	s := suite.Begin(t)
	name := "b-" + s.NS
	put(t, s, name, "", ", managementPolicies: [Observe, Create]")
	s.Await(t, bucket, s.NS, name, named(name))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if inCloud(t, name) == nil {
		t.Fatal("it was to stay")
	}
	put(t, s, name, "", ", managementPolicies: [Observe]")
	s.Await(t, bucket, s.NS, name, named(name))
	put(t, s, name, "", ", managementPolicies: ['*']")
	s.Await(t, bucket, s.NS, name, func(o *unstructured.Unstructured) error {
		if is, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); is != o.GetGeneration() {
			return fmt.Errorf("it is at %d", is)
		}
		return named(name)(o)
	})
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if inCloud(t, name) != nil {
		t.Error("it is left")
	}
}

// TestNothingIsKeptOfWhatOnlyLookedOn takes away by force a managed resource that could
// neither make its external resource nor delete it: it keeps no name from anybody.
func TestNothingIsKeptOfWhatOnlyLookedOn(t *testing.T) {
	s := suite.Begin(t)
	name := "b-" + s.NS
	if _, err := sky.Call(cloud.Request{Verb: cloud.VerbCreate, Key: key(name)}); err != nil {
		t.Fatal(err)
	}
	put(t, s, name, "", ", managementPolicies: [Observe]")
	s.Await(t, bucket, s.NS, name, named(name))
	kept := bindings(t, s)
	if len(kept) != 1 {
		t.Fatalf("there are the Bindings %v", kept)
	}
	annotate(t, s, name, "crossplane.io/paused", "true") // so that it isn't taken away in the usual way
	s.Await(t, bucket, s.NS, name, says("ReconcilePaused"))
	s.Delete(t, bucket, s.NS, name)
	s.Patch(t, bucket, s.NS, name, `{"metadata":{"finalizers":null}}`)
	s.AwaitGone(t, bucket, s.NS, name)
	s.AwaitGone(t, binding, "", kept[0])
	if inCloud(t, name) == nil {
		t.Error("the external resource has gone with it")
	}
}
