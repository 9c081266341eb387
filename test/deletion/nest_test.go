package deletion

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/test/suite"
)

// nest is three layers: a Top of a Mid of a Low, which has two objects of a leaf
// kind, the second on top of the first.
const nest = leafKind + `
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-low}
spec:
  schema: {apiVersion: v1alpha1, kind: Low, group: $GROUP}
  resources:
    - id: below
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-below"}, spec: {a: b}}
    - id: leaf
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-leaf"}, spec: {a: "${below.spec.a}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-mid}
spec:
  schema: {apiVersion: v1alpha1, kind: Mid, group: $GROUP}
  resources:
    - id: low
      template: {apiVersion: $GROUP/v1alpha1, kind: Low, metadata: {name: "${schema.metadata.name}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-top}
spec:
  schema: {apiVersion: v1alpha1, kind: Top, group: $GROUP}
  resources:
    - id: mid
      template: {apiVersion: $GROUP/v1alpha1, kind: Mid, metadata: {name: "${schema.metadata.name}"}}
`

const leafKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: leafs.leaf.$GROUP}
spec:
  group: leaf.$GROUP
  scope: Namespaced
  names: {kind: Leaf, listKind: LeafList, plural: leafs, singular: leaf}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const topInstance = "apiVersion: $GROUP/v1alpha1\nkind: Top\nmetadata: {name: x, namespace: $NS}\n"

func leaf(s suite.Suite) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "leaf." + s.Group, Version: "v1", Kind: "Leaf"}
}

// layers are the kinds of the nest from the bottom up.
var layers = []string{"Low", "Mid", "Top"}

// build makes the nest and one instance of it.
func build(t *testing.T, s suite.Suite) {
	t.Helper()
	s.Put(t, nest)
	s.Active(t, "low", "mid", "top")
	s.Put(t, topInstance)
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
}

// patch changes an object as a person would.
func patch(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, name string, metadata map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Of(t, gvk, s.NS).Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatalf("patch %s %s: %v", gvk.Kind, name, err)
	}
}

func annotate(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, name, key string, value any) {
	t.Helper()
	patch(t, s, gvk, name, map[string]any{"annotations": map[string]any{key: value}})
}

func finalizers(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, name string, finalizers ...string) {
	t.Helper()
	patch(t, s, gvk, name, map[string]any{"finalizers": finalizers})
}

// blocked checks that an instance tells, as its deepest cause, of an object and a
// reason, in words that contain the given ones, in its conditions as well.
func blocked(object string, reason report.Reason, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		said := report.Read(o)
		if said.Deletion == nil {
			return errors.New("doesn't tell of its deletion")
		}
		i := slices.IndexFunc(said.Deletion.Blockers, func(b report.Blocker) bool {
			return b.Deepest().Reason == reason && strings.HasSuffix(b.Deepest().Object.String(), object)
		})
		if i < 0 {
			return fmt.Errorf("doesn't tell of %s %s: %+v", object, reason, said.Deletion.Blockers)
		}
		deepest := said.Deletion.Blockers[i].Deepest()
		ready, _ := said.Conditions.Get("Ready")
		for _, word := range words {
			if !strings.Contains(deepest.Message, word) {
				return fmt.Errorf("the cause doesn't say %q: %s", word, deepest.Message)
			}
			if !strings.Contains(ready.Message, word) {
				return fmt.Errorf("Ready doesn't say %q: %s", word, ready.Message)
			}
		}
		if said.State != "DELETING" || ready.Status != "False" || ready.Reason != "Deleting" || deepest.Since.IsZero() {
			return fmt.Errorf("state %s, Ready %s because of %s, since %s", said.State, ready.Status, ready.Reason, deepest.Since)
		}
		return nil
	}
}

// contains checks that a text has all the words.
func contains(text string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Errorf("doesn't say %q: %s", word, text)
		}
	}
	return nil
}
