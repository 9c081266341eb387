package identity

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestChildrenAndInstancesCarryTheDialectsMetadata(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	instance := s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	child := s.Get(t, suite.ConfigMap, s.NS, "x-content")
	definition := s.Get(t, suite.RGD, "", s.Name("box"))
	id := instance.GetLabels()["applyset.kubernetes.io/id"]
	for key, want := range map[string]string{
		"kro.run/owned": "true", "kro.run/kro-version": "test", "kro.run/instance-id": string(instance.GetUID()),
		"kro.run/instance-name": "x", "kro.run/instance-namespace": s.NS, "kro.run/instance-group": s.Group,
		"kro.run/instance-version": "v1alpha1", "kro.run/instance-kind": "Box", "kro.run/node-id": "content",
		"app.kubernetes.io/managed-by": "kro", "applyset.kubernetes.io/part-of": id,
	} {
		if got := child.GetLabels()[key]; got != want {
			t.Errorf("child's label %s is %q, not %q", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"kro.run/owned": "true", "kro.run/kro-version": "test", "kro.run/resource-graph-definition-name": s.Name("box"),
		"kro.run/resource-graph-definition-id": string(definition.GetUID()),
	} {
		if got := instance.GetLabels()[key]; got != want {
			t.Errorf("instance's label %s is %q, not %q", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"applyset.kubernetes.io/tooling": "kro/test", "applyset.kubernetes.io/contains-group-kinds": "ConfigMap",
		"applyset.kubernetes.io/additional-namespaces": "",
	} {
		if got, ok := instance.GetAnnotations()[key]; got != want || !ok {
			t.Errorf("instance's annotation %s is %q, not %q", key, got, want)
		}
	}
	if fmt.Sprint(instance.GetFinalizers(), definition.GetFinalizers()) != "[kro.run/finalizer] [kro.run/finalizer]" {
		t.Errorf("finalizers are %v and %v", instance.GetFinalizers(), definition.GetFinalizers())
	}
}

// edit changes a ConfigMap's value as another client.
// edit changes the value of a ConfigMap, as another client.
func edit(t *testing.T, s suite.Suite, name, manager, value string) {
	t.Helper()
	s.PatchAs(t, manager, suite.ConfigMap, s.NS, name, fmt.Sprintf(`{"data":{"value":%q}}`, value))
}

func TestDriftIsCorrectedAndTheOtherManagerNamed(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	edit(t, s, "x-content", "meddler", "theirs")
	s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("ours", "data", "value"), func(o *unstructured.Unstructured) error {
		if len(o.GetManagedFields()) == 1 {
			return nil
		}
		return errors.New("the other manager still owns something")
	}))
	s.AwaitEvent(t, "x", "DriftCorrected", "data.value of ConfigMap "+s.NS+"/x-content", "meddler")

	t.Log("fields that are not desired are left to other managers")
	s.PatchAs(t, "meddler", suite.ConfigMap, s.NS, "x-content", `{"data":{"more":"theirs"}}`)
	edit(t, s, "x-content", "meddler", "theirs again")
	s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("ours", "data", "value"), suite.HasField("theirs", "data", "more")))
}

func TestAContestedFieldIsNotOverwrittenForever(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	for i := range 3 {
		edit(t, s, "x-content", "meddler", fmt.Sprint("theirs ", i))
		s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("ours", "data", "value")))
	}
	edit(t, s, "x-content", "meddler", "theirs for now")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(suite.HasCondition("Ready", "False", "DriftContested", "data.value of ConfigMap "+s.NS+"/x-content"), suite.HasField("ERROR", "status", "state")))
	if err := suite.HasField("theirs for now", "data", "value")(s.Get(t, suite.ConfigMap, s.NS, "x-content")); err != nil {
		t.Error(err)
	}
}

func TestAForeignObjectIsLeftAlone(t *testing.T) {
	s := suite.New(t)
	foreign := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-content, namespace: $NS, labels: {app.kubernetes.io/managed-by: Helm}}\ndata: {value: theirs}\n"
	s.Apply(t, foreign)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(
		suite.HasCondition("Ready", "False", "NotOwned", "ConfigMap "+s.NS+"/x-content already exists and belongs to Helm (written by test); it is not changed", "adopt: IfUnowned"), suite.HasField("ERROR", "status", "state")))
	s.AwaitEvent(t, "x", "NotOwned", "belongs to Helm")
	if err := suite.HasField("theirs", "data", "value")(s.Get(t, suite.ConfigMap, s.NS, "x-content")); err != nil {
		t.Error(err)
	}

	t.Log("when its owner removes it, the name is taken at once")
	s.Delete(t, suite.ConfigMap, s.NS, "x-content")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("ours", "data", "value")))

	t.Log("the deletion of an instance does not delete foreign objects")
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other-content, namespace: $NS}\ndata: {value: theirs}\n")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: other, namespace: $NS}\n")
	s.Await(t, s.Kind("Box"), s.NS, "other", suite.HasCondition("Ready", "False", "NotOwned"))
	s.Delete(t, s.Kind("Box"), s.NS, "other")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "other")
	if s.Get(t, suite.ConfigMap, s.NS, "other-content") == nil {
		t.Error("another owner's object was deleted")
	}
}

func TestAnUnownedObjectIsAdoptedOnRequest(t *testing.T) {
	foreign := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-content, namespace: $NS}\ndata: {value: theirs, more: theirs}\n"
	t.Run("by adopt: IfUnowned", func(t *testing.T) {
		s := suite.New(t)
		s.Apply(t, foreign)
		s.Apply(t, suite.Box[:len(suite.Box)-1]+"\n      adopt: IfUnowned\n")
		s.Apply(t, suite.BoxInstance)
		s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
		s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("ours", "data", "value"), suite.HasField("theirs", "data", "more")))
	})
	t.Run("by adopt: IfUnowned, set afterwards", func(t *testing.T) {
		s := suite.New(t)
		s.Apply(t, foreign)
		s.Apply(t, suite.Box)
		s.Apply(t, suite.BoxInstance)
		o := s.Await(t, s.Kind("Box"), s.NS, "x", suite.HasCondition("Ready", "False", "NotOwned"))
		patch := fmt.Sprintf(`{"metadata":{"labels":{"applyset.kubernetes.io/part-of":%q}}}`, o.GetLabels()["applyset.kubernetes.io/id"])
		s.Patch(t, suite.ConfigMap, s.NS, "x-content", patch)
		s.Await(t, s.Kind("Box"), s.NS, "x", suite.HasCondition("Ready", "False", "NotOwned", "nothing proves that the instance has created it"))
		s.Apply(t, suite.Box[:len(suite.Box)-1]+"\n      adopt: IfUnowned\n")
		s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
		s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("ours", "data", "value"), suite.HasField("content", "metadata", "labels", "kro.run/node-id")))
	})
	t.Run("never from another instance", func(t *testing.T) {
		s := suite.New(t)
		s.Apply(t, suite.Box[:len(suite.Box)-1]+"\n      adopt: IfUnowned\n")
		fixed := "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-fixed}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Fixed, group: $GROUP}\n" +
			"  resources:\n    - id: content\n      adopt: IfUnowned\n      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x-content}, data: {value: fixed}}\n"
		s.Apply(t, fixed)
		s.Apply(t, suite.BoxInstance)
		s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
		s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Fixed\nmetadata: {name: rival, namespace: $NS}\n")
		s.Await(t, s.Kind("Fixed"), s.NS, "rival", suite.All(suite.HasCondition("Ready", "False", "NotOwned", "belongs to Box "+s.NS+"/x"), suite.HasCondition("ResourcesReady", "False", "NotOwned")))
		s.Delete(t, s.Kind("Box"), s.NS, "x")
		s.AwaitReady(t, s.Kind("Fixed"), s.NS, "rival")
	})
}

func TestADeletedChildIsRecreated(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	first := s.Get(t, suite.ConfigMap, s.NS, "x-content")
	s.Delete(t, suite.ConfigMap, s.NS, "x-content")
	s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(func(o *unstructured.Unstructured) error {
		if o.GetUID() == first.GetUID() {
			return errors.New("is still the old one")
		}
		return nil
	}))
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	if testkit.ConditionStatus(s.Get(t, s.Kind("Box"), s.NS, "x"), "Ready") != "True" {
		t.Error("not ready")
	}
}
