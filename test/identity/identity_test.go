package identity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// releaseDefinition deletes a definition that may leave orphans.
func releaseDefinition(t *testing.T, s suite.Suite, name string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`
	s.Patch(t, suite.RGD, "", s.Name(name), patch)
	s.Delete(t, suite.RGD, "", s.Name(name))
	s.AwaitGone(t, suite.RGD, "", s.Name(name))
}

// deleteBeforeInstance deletes the definition box, which waits for its only instance, and then that.
func deleteBeforeInstance(t *testing.T, s suite.Suite) {
	t.Helper()
	s.Delete(t, suite.RGD, "", s.Name("box"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasCondition("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, suite.RGD, "", s.Name("box"))
}

// unreadable turns the box into a definition whose spec cannot be decoded.
func unreadable(definition string) string {
	return strings.Replace(definition, "- id: content\n", "- id: content\n      waitFor: {x: {fields: [5]}}\n", 1)
}

func TestADefinitionThatIsRecreatedFindsItsInstances(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	first := s.Get(t, suite.RGD, "", s.Name("box"))
	patch := `{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`
	s.Patch(t, suite.RGD, "", s.Name("box"), patch)
	s.Delete(t, suite.RGD, "", s.Name("box"))
	s.AwaitGone(t, suite.RGD, "", s.Name("box"))
	s.Apply(t, suite.Box)
	second := s.AwaitReady(t, suite.RGD, "", s.Name("box"))
	if first.GetUID() == second.GetUID() {
		t.Fatal("the definition was not recreated")
	}
	s.Apply(t, suite.BoxInstance+"spec: {value: found}\n")
	o := s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("found", "status", "value"),
		suite.HasField(string(second.GetUID()), "metadata", "labels", "kro.run/resource-graph-definition-id")))
	if !slices.Equal(o.GetFinalizers(), []string{"kro.run/finalizer"}) {
		t.Errorf("finalizers are %v", o.GetFinalizers())
	}
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
}

func TestAFinalizerOfAFormerIncarnationIsRemoved(t *testing.T) {
	const old = "01234567-89ab-cdef-0123-456789abcdef.kro.run/finalizer"
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.AwaitDefinitions(t, "box")
	s.Apply(t, strings.Replace(suite.BoxInstance, "metadata: {name: x,", "metadata: {finalizers: ["+old+", other.example.com/keep], name: x,", 1))
	want := func(finalizers ...string) suite.Check {
		return func(o *unstructured.Unstructured) error {
			got := slices.Sorted(slices.Values(o.GetFinalizers()))
			if !slices.Equal(got, finalizers) {
				return fmt.Errorf("finalizers are %v", got)
			}
			return nil
		}
	}
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, want("kro.run/finalizer", "other.example.com/keep")))

	t.Log("one that turns up later does not keep a deleted instance either")
	patch := `{"metadata":{"finalizers":["` + old + `","kro.run/finalizer"]}}`
	s.Patch(t, s.Kind("Box"), s.NS, "x", patch)
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
}

func TestAResourceGroupServesItsKindUnderItsOwnFinalizer(t *testing.T) {
	s := suite.New(t)
	s.Account(t, rbac.DefaultServiceAccount)
	group := strings.Replace(strings.Replace(suite.Box, "ResourceGraphDefinition", "ResourceGroup", 1), "metadata: {name: $ID-box}", "metadata: {name: box, namespace: $NS}", 1)
	s.Apply(t, group)
	s.Apply(t, suite.BoxInstance)
	o := s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	if want := "box." + s.NS + ".kro.run/finalizer"; !slices.Equal(o.GetFinalizers(), []string{want}) {
		t.Errorf("finalizers are %v, not %s", o.GetFinalizers(), want)
	}
	s.Delete(t, suite.RG, s.NS, "box")
	s.Await(t, suite.RG, s.NS, "box", suite.HasCondition("Ready", "False", "InstancesRemain"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, suite.RG, s.NS, "box")
	s.AwaitGone(t, suite.CRD, "", "boxes."+s.Group)
}

func TestADefinitionThatCantBeReadStillWaitsForItsInstances(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

	t.Log("nothing is remembered of the former incarnation, as after a restart")
	releaseDefinition(t, s, "box")
	s.Apply(t, unreadable(suite.Box))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph", "is not allowed here"))
	s.Apply(t, suite.BoxInstance+"spec: {value: changed}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.HasField("changed", "status", "value"))

	deleteBeforeInstance(t, s)
}

func TestARecreatedDefinitionServesExistingInstances(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	releaseDefinition(t, s, "box")
	s.Apply(t, strings.Replace(suite.Box, "apiVersion: v1alpha1\n", "apiVersion: v1beta1\n", 1))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasCondition("KindReady", "False", "BreakingChange", "version v1alpha1 is no longer served"))
	s.Apply(t, suite.BoxInstance+"spec: {value: changed}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.HasField("changed", "status", "value"))

	deleteBeforeInstance(t, s)
}
