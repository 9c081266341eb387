package security

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// shelf is a kind whose instances have two ConfigMaps, one of them only on demand; its account
// may do anything with ConfigMaps, in all namespaces.
var shelf = fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: worker, namespace: $NS}\n---"+accountRules, "worker") + `---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-shelf}
spec:
  serviceAccount: {name: worker, namespace: $NS}
  schema:
    apiVersion: v1alpha1
    kind: Shelf
    group: $GROUP
    spec: {text: 'string | default="a"', second: 'boolean | default=true'}
    status: {read: "${first.data.text}"}
  resources:
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-first"}, data: {text: "${schema.spec.text}"}}
    - id: second
      includeWhen: ["${schema.spec.second}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-second"}, data: {text: "${first.data.text}"}}
`

const shelfInstance = "apiVersion: $GROUP/v1alpha1\nkind: Shelf\nmetadata: {name: x, namespace: $NS}\n"

// hold is a finalizer by which a test sees whether an object was deleted.
const hold = "example.com/hold"

// labeller may write ConfigMaps in a namespace, and may not delete them.
func labeller(t *testing.T, s suite.Suite, name, namespace string) *testkit.Cluster {
	t.Helper()
	return user(t, s, name, namespace, `[{apiGroups: [""], resources: [configmaps], verbs: [create, get, list, patch]}]`)
}

// copyOf is a ConfigMap with the labels, annotations and, if asked for, the owner references of a child.
func copyOf(child *unstructured.Unstructured, namespace, name string, references bool) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"text": "attack"}}}
	o.SetGroupVersionKind(suite.ConfigMap)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(child.GetLabels())
	annotations := maps.Clone(child.GetAnnotations())
	o.SetAnnotations(annotations)
	o.SetFinalizers([]string{hold})
	if references {
		o.SetOwnerReferences(child.GetOwnerReferences())
	}
	return o
}

func without(o *unstructured.Unstructured, annotation string) *unstructured.Unstructured {
	annotations := o.GetAnnotations()
	delete(annotations, annotation)
	o.SetAnnotations(annotations)
	return o
}

// TestACopiedLabelMakesNoChild gives objects what the children of an instance have, and has the
// instance prune, change and go.
func TestACopiedLabelMakesNoChild(t *testing.T) {
	s := suite.New(t)
	elsewhere := testkit.Namespace(t, s.Config)
	s.Apply(t, shelf)
	s.Apply(t, shelfInstance)
	s.AwaitReady(t, s.Kind("Shelf"), s.NS, "x")
	child := s.Get(t, suite.ConfigMap, s.NS, "x-first")
	here, there := labeller(t, s, "here", s.NS), labeller(t, s, "there", elsewhere)
	attacks := []*unstructured.Unstructured{
		without(copyOf(child, s.NS, "label", false), "espalier.dev/signature"),
		copyOf(child, s.NS, "signature", false),
		copyOf(child, s.NS, "reference", true),
		without(copyOf(child, elsewhere, "label", false), "espalier.dev/signature"),
		copyOf(child, elsewhere, "signature", false),
		without(copyOf(child, elsewhere, "reference", true), "espalier.dev/signature"),
		copyOf(child, elsewhere, "x-first", true),
	}
	for _, o := range attacks {
		as := here
		if o.GetNamespace() == elsewhere {
			as = there
		}
		if _, err := as.TryApply(t, o); err != nil {
			t.Fatal(err)
		}
	}
	untouched := func(when string) {
		t.Helper()
		for _, o := range attacks {
			live := s.Get(t, suite.ConfigMap, o.GetNamespace(), o.GetName())
			text, _, _ := unstructured.NestedString(live.Object, "data", "text")
			if live.GetDeletionTimestamp() != nil || text != "attack" || live.GetLabels()["kro.run/node-id"] != "first" {
				t.Errorf("%s, %s was changed or deleted: %v", when, object.KeyOf(o), live.Object)
			}
		}
	}

	s.Patch(t, s.Kind("Shelf"), s.NS, "x", `{"spec": {"text": "b", "second": false}}`)
	s.Await(t, s.Kind("Shelf"), s.NS, "x", suite.HasField("b", "status", "read"))
	s.AwaitReady(t, s.Kind("Shelf"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-second")
	untouched("while the instance prunes")
	if got := s.Get(t, s.Kind("Shelf"), s.NS, "x").GetAnnotations()["applyset.kubernetes.io/additional-namespaces"]; got != "" {
		t.Errorf("the inventory has the namespace of a copy: %s", got)
	}

	s.Delete(t, s.Kind("Shelf"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Shelf"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-first")
	untouched("after the instance")

	t.Log("the next incarnation takes none of them either")
	s.Apply(t, shelfInstance)
	s.AwaitReady(t, s.Kind("Shelf"), s.NS, "x")
	untouched("with the next incarnation")
	for _, o := range attacks {
		s.Patch(t, suite.ConfigMap, o.GetNamespace(), o.GetName(), `{"metadata": {"finalizers": null}}`)
	}
}

// TestACopiedLabelTakesNoPlace puts a copy where a node wants its object.
func TestACopiedLabelTakesNoPlace(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, shelf)
	s.Apply(t, shelfInstance)
	s.AwaitReady(t, s.Kind("Shelf"), s.NS, "x")
	attack := copyOf(s.Get(t, suite.ConfigMap, s.NS, "x-first"), s.NS, "other-first", true)
	id := applySetID(s, "other")
	attack.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": id, "kro.run/node-id": "first", "kro.run/instance-name": "other"})
	if _, err := labeller(t, s, "here", s.NS).TryApply(t, attack); err != nil {
		t.Fatal(err)
	}
	s.Apply(t, strings.ReplaceAll(shelfInstance, "name: x", "name: other"))
	s.Await(t, s.Kind("Shelf"), s.NS, "other", suite.HasCondition("Ready", "False", "NotOwned", "nothing proves that the instance has created it", "adopt: IfUnowned"))
	if _, read, _ := unstructured.NestedString(s.Get(t, s.Kind("Shelf"), s.NS, "other").Object, "status", "read"); read {
		t.Error("the object was read as a node")
	}

	t.Log("its author lets it be adopted")
	s.Apply(t, strings.Replace(shelf, "- id: first\n", "- id: first\n      adopt: IfUnowned\n", 1))
	s.AwaitReady(t, s.Kind("Shelf"), s.NS, "other")
	s.Patch(t, suite.ConfigMap, s.NS, "other-first", `{"metadata": {"finalizers": null}}`)
	s.Delete(t, s.Kind("Shelf"), s.NS, "other")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "other-first")
}

// TestATenantWritesNoInventory changes the inventory of an instance, so that the engine looks
// into, and deletes in, another namespace.
func TestATenantWritesNoInventory(t *testing.T) {
	s := suite.New(t)
	elsewhere := testkit.Namespace(t, s.Config)
	s.Apply(t, shelf)
	s.Apply(t, shelfInstance)
	s.AwaitReady(t, s.Kind("Shelf"), s.NS, "x")
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: ["`+s.Group+`"], resources: ["*"], verbs: [delete, get, patch]}]`)
	child := s.Get(t, suite.ConfigMap, s.NS, "x-first")
	victim := without(copyOf(child, elsewhere, "victim", false), "espalier.dev/signature")
	if _, err := labeller(t, s, "there", elsewhere).TryApply(t, victim); err != nil {
		t.Fatal(err)
	}
	id := child.GetLabels()["applyset.kubernetes.io/part-of"]
	const kinds = "ConfigMap"
	for name, hash := range map[string]string{
		"the digest of earlier releases": object.Digest([]string{id, kinds, elsewhere}),
		"another engine's hash":          "sha256:abc",
		"no hash":                        "",
	} {
		change := fmt.Sprintf(`{"metadata": {"annotations": {"applyset.kubernetes.io/contains-group-kinds": %q,
			"applyset.kubernetes.io/additional-namespaces": %q, "internal.kro.run/applyset-inventory-hash": %q}}}`, kinds, elsewhere, hash)
		tenant.Patch(t, s.Kind("Shelf"), s.NS, "x", change)
		s.Await(t, s.Kind("Shelf"), s.NS, "x", func(o *unstructured.Unstructured) error {
			if got := o.GetAnnotations()["applyset.kubernetes.io/additional-namespaces"]; got != "" {
				return fmt.Errorf("%s: the inventory has namespace %s", name, got)
			}
			if !strings.HasPrefix(o.GetAnnotations()["internal.kro.run/applyset-inventory-hash"], "hmac-sha256:v1:") {
				return errors.New("it isn't signed")
			}
			return nil
		})
	}

	t.Log("the last change comes with the deletion")
	s.Patch(t, suite.ConfigMap, s.NS, "x-second", `{"metadata": {"finalizers": ["`+hold+`"]}}`)
	s.Delete(t, s.Kind("Shelf"), s.NS, "x")
	tenant.Patch(t, s.Kind("Shelf"), s.NS, "x", fmt.Sprintf(`{"metadata": {"annotations": {"applyset.kubernetes.io/additional-namespaces": %q}}}`, elsewhere))
	s.Patch(t, suite.ConfigMap, s.NS, "x-second", `{"metadata": {"finalizers": null}}`)
	s.AwaitGone(t, s.Kind("Shelf"), s.NS, "x")
	if live := s.Get(t, suite.ConfigMap, elsewhere, "victim"); live == nil || live.GetDeletionTimestamp() != nil {
		t.Error("an object of another namespace was deleted")
	}
	s.Patch(t, suite.ConfigMap, elsewhere, "victim", `{"metadata": {"finalizers": null}}`)
}

// TestNobodyReadsTheSigningKey asks for it as those who may write instances and their objects.
func TestNobodyReadsTheSigningKey(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, shelf)
	s.Apply(t, shelfInstance)
	x := s.AwaitReady(t, s.Kind("Shelf"), s.NS, "x")
	bindings := s.Get(t, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", "bindings.espalier.dev")
	secret := s.Get(t, suite.Secret, bindings.GetAnnotations()[v1alpha1.SigningKeyAnnotation], v1alpha1.SigningKeySecret)
	if secret == nil {
		t.Fatal("there is no signing key")
	}
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	child := s.Get(t, suite.ConfigMap, s.NS, "x-first")
	for id, key := range data {
		for _, o := range []*unstructured.Unstructured{x, child, s.Get(t, suite.RGD, "", s.Name("shelf"))} {
			if raw, _ := o.MarshalJSON(); id != "current" && strings.Contains(string(raw), key) {
				t.Errorf("%s has the key", object.KeyOf(o))
			}
		}
	}
	_, err := labeller(t, s, "here", s.NS).Resource(t, suite.Secret, secret.GetNamespace()).Get(t.Context(), secret.GetName(), metav1.GetOptions{})
	if err == nil {
		t.Error("a user who may write ConfigMaps reads it")
	}
}

// applySetID is the ApplySet ID of a Shelf.
func applySetID(s suite.Suite, name string) string {
	return inventory.ApplySetID(object.Key{Group: s.Group, Kind: "Shelf", Namespace: s.NS, Name: name})
}
