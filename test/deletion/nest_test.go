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
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// nest is three layers: a Top of a Mid of a Low, which has two objects of a leaf
// kind, the second on top of the first.
var nest = leafKind + `
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

var leafKind = suite.CRDText("leaf.$GROUP", "v1", "Leaf", "{type: object, x-kubernetes-preserve-unknown-fields: true}")

const topInstance = "apiVersion: $GROUP/v1alpha1\nkind: Top\nmetadata: {name: x, namespace: $NS}\n"

func leaf(s suite.Suite) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "leaf." + s.Group, Version: "v1", Kind: "Leaf"}
}

// layers are the kinds of the nest from the bottom up.
var layers = []string{"Low", "Mid", "Top"}

// layered is a nest of either dialect: layers of instances, each the only one of its
// kind, on top of the leaves x-leaf and x-below.
type layered struct {
	// layers are from the bottom up.
	layers []layer
	build  func(*testing.T, suite.Suite)
	// blocked checks that an instance reports an object and a reason.
	blocked func(object string, reason report.Reason, words ...string) func(*unstructured.Unstructured) error
}

// layer are the instances of a kind, which are in no namespace if it is cluster-scoped.
type layer struct {
	kind    string
	cluster bool
}

// nests are those of both dialects.
var nests = map[string]layered{
	"graphs":     {[]layer{{kind: "Low"}, {kind: "Mid"}, {kind: "Top"}}, build, isBlocked},
	"composites": {[]layer{{kind: "Low"}, {kind: "Mid", cluster: true}, {kind: "XTop", cluster: true}, {kind: "Top"}}, compose, reportsBlocker},
}

func (l layer) client(t *testing.T, s suite.Suite) dynamic.ResourceInterface {
	t.Helper()
	return s.Resource(t, s.Kind(l.kind), s.NS)
}

// only is the only one of the layer's instances; nil if there is none.
func (l layer) only(t *testing.T, s suite.Suite) *unstructured.Unstructured {
	t.Helper()
	list, err := l.client(t, s).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 1 {
		t.Fatalf("of %s there is %v: %v", l.kind, list, err)
	}
	for i := range list.Items {
		return &list.Items[i]
	}
	return nil
}

// top is the kind at the top.
func (n layered) top() layer { return n.layers[len(n.layers)-1] }

// awaitGone waits until no layer has an instance, and no leaf is left.
func (n layered) awaitGone(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, l := range n.layers {
		err := testkit.AwaitList(t.Context(), l.client(t, s), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
			if len(objects) > 0 {
				return fmt.Errorf("there are %d of %s", len(objects), l.kind)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"x-leaf", "x-below"} {
		s.AwaitGone(t, leaf(s), s.NS, name)
	}
}

// build creates the nest's definitions and one instance.
func build(t *testing.T, s suite.Suite) {
	t.Helper()
	s.Apply(t, nest)
	s.AwaitDefinitions(t, "low", "mid", "top")
	s.Apply(t, topInstance)
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
}

// patch changes an object as a user does.
func patch(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, name string, metadata map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Resource(t, gvk, s.NS).Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatalf("patch %s %s: %v", gvk.Kind, name, err)
	}
}

func annotate(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, name, key string, value any) {
	t.Helper()
	patch(t, s, gvk, name, map[string]any{"annotations": map[string]any{key: value}})
}

func setFinalizers(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, name string, setFinalizers ...string) {
	t.Helper()
	patch(t, s, gvk, name, map[string]any{"finalizers": setFinalizers})
}

// isBlocked is reported for instances of graphs, which have a state as well.
func isBlocked(object string, reason report.Reason, words ...string) func(*unstructured.Unstructured) error {
	check := reportsBlocker(object, reason, words...)
	return func(o *unstructured.Unstructured) error {
		if err := check(o); err != nil {
			return err
		}
		if state := report.Read(o).State; state != "DELETING" {
			return fmt.Errorf("state %s", state)
		}
		return nil
	}
}

// reportsBlocker checks that an instance tells, as its deepest cause, of an object and a
// reason, in words that contain the given ones, in its conditions as well.
func reportsBlocker(object string, reason report.Reason, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		said := report.Read(o)
		if said.Deletion == nil {
			return errors.New("doesn't tell of its deletion")
		}
		i := slices.IndexFunc(said.Deletion.Blockers, func(b report.Blocker) bool {
			return b.RootCause().Reason == reason && strings.HasSuffix(b.RootCause().Object.String(), object)
		})
		if i < 0 {
			return fmt.Errorf("doesn't tell of %s %s: %+v", object, reason, said.Deletion.Blockers)
		}
		deepest := said.Deletion.Blockers[i].RootCause()
		ready, _ := said.Conditions.Get("Ready")
		for _, word := range words {
			if !strings.Contains(deepest.Message, word) {
				return fmt.Errorf("the cause doesn't say %q: %s", word, deepest.Message)
			}
			if !strings.Contains(ready.Message, word) {
				return fmt.Errorf("Ready doesn't say %q: %s", word, ready.Message)
			}
		}
		if ready.Status != "False" || ready.Reason != "Deleting" || deepest.Since.IsZero() {
			return fmt.Errorf("Ready %s because of %s, since %s", ready.Status, ready.Reason, deepest.Since)
		}
		return nil
	}
}

// containsAll checks that a text contains all words.
func containsAll(text string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Errorf("doesn't say %q: %s", word, text)
		}
	}
	return nil
}
