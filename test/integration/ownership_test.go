package integration

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// box is a definition of one ConfigMap, the smallest thing that can be owned.
const box = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-box}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Box
    group: $GROUP
    spec: {value: 'string | default="ours"'}
    status: {value: "${content.data.value}"}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-content"}, data: {value: "${schema.spec.value}"}}
`

const boxInstance = "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: x, namespace: $NS}\n"

func TestChildrenAndInstancesCarryTheDialectsMetadata(t *testing.T) {
	s := begin(t)
	s.apply(t, box)
	s.apply(t, boxInstance)
	instance := s.AwaitReady(t, s.kind("Box"), s.ns, "x")
	child := s.Get(t, configMap, s.ns, "x-content")
	definition := s.Get(t, rgd, "", s.name("box"))
	id := instance.GetLabels()["applyset.kubernetes.io/id"]
	for key, want := range map[string]string{
		"kro.run/owned": "true", "kro.run/kro-version": "test", "kro.run/instance-id": string(instance.GetUID()),
		"kro.run/instance-name": "x", "kro.run/instance-namespace": s.ns, "kro.run/instance-group": s.group,
		"kro.run/instance-version": "v1alpha1", "kro.run/instance-kind": "Box", "kro.run/node-id": "content",
		"app.kubernetes.io/managed-by": "kro", "applyset.kubernetes.io/part-of": id,
	} {
		if got := child.GetLabels()[key]; got != want {
			t.Errorf("child's label %s is %q, not %q", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"kro.run/owned": "true", "kro.run/kro-version": "test", "kro.run/resource-graph-definition-name": s.name("box"),
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

// edit changes a ConfigMap's value as somebody else.
func (s suite) edit(t *testing.T, name, manager, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"data":{"value":%q}}`, value)
	if _, err := s.Of(t, configMap, s.ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}); err != nil {
		t.Fatal(err)
	}
}

func TestDriftIsCorrectedAndTheOtherManagerNamed(t *testing.T) {
	s := begin(t)
	s.apply(t, box)
	s.apply(t, boxInstance)
	s.AwaitReady(t, s.kind("Box"), s.ns, "x")
	s.edit(t, "x-content", "meddler", "theirs")
	s.Await(t, configMap, s.ns, "x-content", all(field("ours", "data", "value"), func(o *unstructured.Unstructured) error {
		if len(o.GetManagedFields()) == 1 {
			return nil
		}
		return errors.New("the other manager still owns something")
	}))
	s.event(t, "x", "DriftCorrected", "data.value of ConfigMap "+s.ns+"/x-content", "meddler")

	t.Log("fields that nobody here wants are left to others")
	if _, err := s.Of(t, configMap, s.ns).Patch(t.Context(), "x-content", types.MergePatchType, []byte(`{"data":{"more":"theirs"}}`), metav1.PatchOptions{FieldManager: "meddler"}); err != nil {
		t.Fatal(err)
	}
	s.edit(t, "x-content", "meddler", "theirs again")
	s.Await(t, configMap, s.ns, "x-content", all(field("ours", "data", "value"), field("theirs", "data", "more")))
}

func TestAFightOverAFieldIsNotHotLooped(t *testing.T) {
	s := begin(t)
	s.apply(t, box)
	s.apply(t, boxInstance)
	s.AwaitReady(t, s.kind("Box"), s.ns, "x")
	for i := range 3 {
		s.edit(t, "x-content", "meddler", fmt.Sprint("theirs ", i))
		s.Await(t, configMap, s.ns, "x-content", all(field("ours", "data", "value")))
	}
	s.edit(t, "x-content", "meddler", "theirs for now")
	s.Await(t, s.kind("Box"), s.ns, "x", all(conditionIs("Ready", "False", "DriftContested", "data.value of ConfigMap "+s.ns+"/x-content"), field("ERROR", "status", "state")))
	if err := field("theirs for now", "data", "value")(s.Get(t, configMap, s.ns, "x-content")); err != nil {
		t.Error(err)
	}
}

func TestAnObjectOfSomebodyElsesIsLeftAlone(t *testing.T) {
	s := begin(t)
	foreign := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-content, namespace: $NS, labels: {app.kubernetes.io/managed-by: Helm}}\ndata: {value: theirs}\n"
	s.apply(t, foreign)
	s.apply(t, box)
	s.apply(t, boxInstance)
	s.Await(t, s.kind("Box"), s.ns, "x", all(
		conditionIs("Ready", "False", "NotOwned", "ConfigMap "+s.ns+"/x-content exists already and belongs to Helm", "adopt: IfUnowned"), field("ERROR", "status", "state")))
	s.event(t, "x", "NotOwned", "belongs to Helm")
	if err := field("theirs", "data", "value")(s.Get(t, configMap, s.ns, "x-content")); err != nil {
		t.Error(err)
	}

	t.Log("when its owner removes it, the name is taken at once")
	s.Delete(t, configMap, s.ns, "x-content")
	s.AwaitReady(t, s.kind("Box"), s.ns, "x")
	s.Await(t, configMap, s.ns, "x-content", all(field("ours", "data", "value")))

	t.Log("and an instance that goes never takes what isn't its own")
	s.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other-content, namespace: $NS}\ndata: {value: theirs}\n")
	s.apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: other, namespace: $NS}\n")
	s.Await(t, s.kind("Box"), s.ns, "other", conditionIs("Ready", "False", "NotOwned"))
	s.Delete(t, s.kind("Box"), s.ns, "other")
	s.AwaitGone(t, s.kind("Box"), s.ns, "other")
	if s.Get(t, configMap, s.ns, "other-content") == nil {
		t.Error("somebody else's object was deleted")
	}
}

func TestAnUnownedObjectIsAdoptedOnRequest(t *testing.T) {
	foreign := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-content, namespace: $NS}\ndata: {value: theirs, more: theirs}\n"
	t.Run("by adopt: IfUnowned", func(t *testing.T) {
		s := begin(t)
		s.apply(t, foreign)
		s.apply(t, box[:len(box)-1]+"\n      adopt: IfUnowned\n")
		s.apply(t, boxInstance)
		s.AwaitReady(t, s.kind("Box"), s.ns, "x")
		s.Await(t, configMap, s.ns, "x-content", all(field("ours", "data", "value"), field("theirs", "data", "more")))
	})
	t.Run("by the label", func(t *testing.T) {
		s := begin(t)
		s.apply(t, foreign)
		s.apply(t, box)
		s.apply(t, boxInstance)
		o := s.Await(t, s.kind("Box"), s.ns, "x", conditionIs("Ready", "False", "NotOwned"))
		patch := fmt.Sprintf(`{"metadata":{"labels":{"applyset.kubernetes.io/part-of":%q}}}`, o.GetLabels()["applyset.kubernetes.io/id"])
		if _, err := s.Of(t, configMap, s.ns).Patch(t.Context(), "x-content", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.AwaitReady(t, s.kind("Box"), s.ns, "x")
		s.Await(t, configMap, s.ns, "x-content", all(field("ours", "data", "value"), field("content", "metadata", "labels", "kro.run/node-id")))
	})
	t.Run("never from another instance", func(t *testing.T) {
		s := begin(t)
		s.apply(t, box[:len(box)-1]+"\n      adopt: IfUnowned\n")
		fixed := "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-fixed}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Fixed, group: $GROUP}\n" +
			"  resources:\n    - id: content\n      adopt: IfUnowned\n      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x-content}, data: {value: fixed}}\n"
		s.apply(t, fixed)
		s.apply(t, boxInstance)
		s.AwaitReady(t, s.kind("Box"), s.ns, "x")
		s.apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Fixed\nmetadata: {name: rival, namespace: $NS}\n")
		s.Await(t, s.kind("Fixed"), s.ns, "rival", conditionIs("Ready", "False", "NotOwned", "belongs to Box "+s.ns+"/x"))
		s.Delete(t, s.kind("Box"), s.ns, "x")
		s.AwaitReady(t, s.kind("Fixed"), s.ns, "rival")
	})
}

func TestADeletedChildIsMadeAnew(t *testing.T) {
	s := begin(t)
	s.apply(t, box)
	s.apply(t, boxInstance)
	s.AwaitReady(t, s.kind("Box"), s.ns, "x")
	first := s.Get(t, configMap, s.ns, "x-content")
	s.Delete(t, configMap, s.ns, "x-content")
	s.Await(t, configMap, s.ns, "x-content", all(func(o *unstructured.Unstructured) error {
		if o.GetUID() == first.GetUID() {
			return errors.New("is still the old one")
		}
		return nil
	}))
	s.AwaitReady(t, s.kind("Box"), s.ns, "x")
	if testkit.Condition(s.Get(t, s.kind("Box"), s.ns, "x"), "Ready") != "True" {
		t.Error("not ready")
	}
}
