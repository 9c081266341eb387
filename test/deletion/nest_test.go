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
// kind, the second of which depends on the first.
var nest = leafKind + "---" + suite.Graph("Low", "", `
    - id: below
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-below"}, spec: {a: b}}
    - id: leaf
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-leaf"}, spec: {a: "${below.spec.a}"}}
`) + "---" + suite.Graph("Mid", "", `
    - id: low
      template: {apiVersion: $GROUP/v1alpha1, kind: Low, metadata: {name: "${schema.metadata.name}"}}
`) + "---" + suite.Graph("Top", "", `
    - id: mid
      template: {apiVersion: $GROUP/v1alpha1, kind: Mid, metadata: {name: "${schema.metadata.name}"}}
`)

var leafKind = suite.CRDText("leaf.$GROUP", "v1", "Leaf", "{type: object, x-kubernetes-preserve-unknown-fields: true}")

const topInstance = "apiVersion: $GROUP/v1alpha1\nkind: Top\nmetadata: {name: x, namespace: $NS}\n"

func leaf(s suite.Suite) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "leaf." + s.Group, Version: "v1", Kind: "Leaf"}
}

// layers are the kinds of the nest from the bottom up.
var layers = []string{"Low", "Mid", "Top"}

// layered is a nest of either dialect: layers of instances, each the only one of its
// kind, above the leaves x-leaf and x-below.
type layered struct {
	// layers are from the bottom up.
	layers []layer
	build  func(*testing.T, suite.Suite)
	// blocked checks that an instance reports an object and a reason.
	blocked func(object string, reason report.Reason, words ...string) func(*unstructured.Unstructured) error
}

// layer is a kind of instances.
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

// only returns the only instance of the layer; nil if there is none.
func (l layer) only(t *testing.T, s suite.Suite) *unstructured.Unstructured {
	t.Helper()
	list, err := l.client(t, s).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 1 {
		t.Fatalf("the instances of %s are %v: %v", l.kind, list, err)
	}
	for i := range list.Items {
		return &list.Items[i]
	}
	return nil
}

// top is the kind at the top.
func (n layered) top() layer { return n.layers[len(n.layers)-1] }

// awaitGone waits until no layer has an instance, and no leaf exists.
func (n layered) awaitGone(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, l := range n.layers {
		err := testkit.AwaitList(t.Context(), l.client(t, s), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
			if len(objects) > 0 {
				return fmt.Errorf("%d instances of %s exist", len(objects), l.kind)
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

func setFinalizers(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, name string, finalizers ...string) {
	t.Helper()
	patch(t, s, gvk, name, map[string]any{"finalizers": finalizers})
}

// isBlocked is reportsBlocker for instances of graphs, which have a state as well.
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

// reportsBlocker checks that an instance reports a blocker with a root cause of the given object and
// reason, and that its message and that of Ready contain the words.
func reportsBlocker(object string, reason report.Reason, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is deleted")
		}
		status := report.Read(o)
		if status.Deletion == nil {
			return errors.New("does not report its deletion")
		}
		i := slices.IndexFunc(status.Deletion.Blockers, func(b report.Blocker) bool {
			return b.RootCause().Reason == reason && strings.HasSuffix(b.RootCause().Object.String(), object)
		})
		if i < 0 {
			return fmt.Errorf("does not report %s %s: %+v", object, reason, status.Deletion.Blockers)
		}
		cause := status.Deletion.Blockers[i].RootCause()
		ready, _ := status.Conditions.Get("Ready")
		for _, word := range words {
			if !strings.Contains(cause.Message, word) {
				return fmt.Errorf("the message of the cause does not contain %q: %s", word, cause.Message)
			}
			if !strings.Contains(ready.Message, word) {
				return fmt.Errorf("the message of Ready does not contain %q: %s", word, ready.Message)
			}
		}
		if ready.Status != "False" || ready.Reason != "Deleting" || cause.Since.IsZero() {
			return fmt.Errorf("Ready is %s with reason %s, the blocker since %s", ready.Status, ready.Reason, cause.Since)
		}
		return nil
	}
}

// containsAll checks that a text contains all words.
func containsAll(text string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Errorf("does not contain %q: %s", word, text)
		}
	}
	return nil
}
