package identity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// letGo deletes a definition that may leave orphans.
func letGo(t *testing.T, s suite.Suite, name string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`
	s.Patch(t, rgd, "", s.Name(name), patch)
	s.Delete(t, rgd, "", s.Name(name))
	s.AwaitGone(t, rgd, "", s.Name(name))
}

// unreadable turns the box into a definition whose spec can't be decoded.
func unreadable(definition string) string {
	return strings.Replace(definition, "- id: content\n", "- id: content\n      waitFor: {x: {fields: [5]}}\n", 1)
}

func TestADefinitionThatIsRecreatedFindsItsInstances(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.Box)
	s.Put(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	first := s.Get(t, rgd, "", s.Name("box"))
	patch := `{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`
	s.Patch(t, rgd, "", s.Name("box"), patch)
	s.Delete(t, rgd, "", s.Name("box"))
	s.AwaitGone(t, rgd, "", s.Name("box"))
	s.Put(t, suite.Box)
	second := s.AwaitReady(t, rgd, "", s.Name("box"))
	if first.GetUID() == second.GetUID() {
		t.Fatal("the definition was not recreated")
	}
	s.Put(t, suite.BoxInstance+"spec: {value: found}\n")
	o := s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("found", "status", "value"),
		field(string(second.GetUID()), "metadata", "labels", "kro.run/resource-graph-definition-id")))
	if !slices.Equal(o.GetFinalizers(), []string{"kro.run/finalizer"}) {
		t.Errorf("finalizers are %v", o.GetFinalizers())
	}
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
}

func TestAFinalizerOfAFormerIncarnationIsRetired(t *testing.T) {
	const old = "01234567-89ab-cdef-0123-456789abcdef.kro.run/finalizer"
	s := begin(t)
	s.Put(t, suite.Box)
	s.Active(t, "box")
	s.Put(t, strings.Replace(suite.BoxInstance, "metadata: {name: x,", "metadata: {finalizers: ["+old+", other.example.com/keep], name: x,", 1))
	want := func(finalizers ...string) check {
		return func(o *unstructured.Unstructured) error {
			got := slices.Sorted(slices.Values(o.GetFinalizers()))
			if !slices.Equal(got, finalizers) {
				return fmt.Errorf("finalizers are %v", got)
			}
			return nil
		}
	}
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, want("kro.run/finalizer", "other.example.com/keep")))

	t.Log("one that turns up later doesn't keep a deleted instance either")
	patch := `{"metadata":{"finalizers":["` + old + `","kro.run/finalizer"]}}`
	s.Patch(t, s.Kind("Box"), s.NS, "x", patch)
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
}

func TestAResourceGroupServesItsKindUnderItsOwnFinalizer(t *testing.T) {
	s := begin(t)
	group := strings.Replace(strings.Replace(suite.Box, "ResourceGraphDefinition", "ResourceGroup", 1), "metadata: {name: $ID-box}", "metadata: {name: box, namespace: $NS}", 1)
	s.Put(t, group)
	s.Put(t, suite.BoxInstance)
	o := s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	if want := "box." + s.NS + ".kro.run/finalizer"; !slices.Equal(o.GetFinalizers(), []string{want}) {
		t.Errorf("finalizers are %v, not %s", o.GetFinalizers(), want)
	}
	s.Delete(t, rg, s.NS, "box")
	s.Await(t, rg, s.NS, "box", conditionIs("Ready", "False", "InstancesRemain"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, rg, s.NS, "box")
	s.AwaitGone(t, crdKind, "", "boxes."+s.Group)
}

func TestADefinitionThatCantBeReadStillWaitsForItsInstances(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.Box)
	s.Put(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

	t.Log("nothing is remembered of the former incarnation, as after a restart")
	letGo(t, s, "box")
	s.Put(t, unreadable(suite.Box))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("GraphAccepted", "False", "InvalidResourceGraph", "can't be read"))
	s.Put(t, suite.BoxInstance+"spec: {value: changed}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", field("changed", "status", "value"))

	s.Delete(t, rgd, "", s.Name("box"))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, rgd, "", s.Name("box"))
}

func TestADefinitionThatComesBackInAnotherVersionServesWhatThereIs(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.Box)
	s.Put(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	letGo(t, s, "box")
	s.Put(t, strings.Replace(suite.Box, "apiVersion: v1alpha1\n", "apiVersion: v1beta1\n", 1))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("KindReady", "False", "BreakingChange", "version v1alpha1 is no longer served"))
	s.Put(t, suite.BoxInstance+"spec: {value: changed}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", field("changed", "status", "value"))

	s.Delete(t, rgd, "", s.Name("box"))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, rgd, "", s.Name("box"))
}
