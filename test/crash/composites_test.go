package crash

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// compositeDefinitions are those of the scenarios of the composition dialect: five
// ConfigMaps by two functions, of which one composition has none of the last and another a
// Secret in its place; a claim with a connection Secret; and a claim of three composites,
// the two upper ones in no namespace, above a ConfigMap whose value comes late.
var compositeDefinitions = definitionOf("Five", "Namespaced", "") + definitionOf("XStore", "", "Store") +
	definitionOf("XHigh", "", "High") + definitionOf("Middle", "Cluster", "") + definitionOf("Deep", "Namespaced", "") +
	composition("five", "Five", part("a")+part("b")+part("c")+part("d")+part("e")) +
	composition("four", "Five", part("a")+part("b")+part("c")+part("d")) +
	composition("other", "Five", part("a")+part("b")+part("c")+part("d")+`
      - name: e
        base: {apiVersion: v1, kind: Secret}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.value, toFieldPath: stringData.value}]
        readinessChecks: [{type: None}]`) +
	composition("store", "XStore", `
      - name: store
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: metadata.namespace}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.value, toFieldPath: data.value}
        - {type: ToCompositeFieldPath, fromFieldPath: data.value, toFieldPath: status.value}
        connectionDetails:
        - {name: password, type: FromFieldPath, fromFieldPath: data.value}`) +
	composition("high", "XHigh", `
      - name: middle
        base: {apiVersion: sweep.example.com/v1alpha1, kind: Middle}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: spec.value}
        - {type: ToCompositeFieldPath, fromFieldPath: status.value, toFieldPath: status.value}`) +
	composition("middle", "Middle", `
      - name: deep
        base: {apiVersion: sweep.example.com/v1alpha1, kind: Deep, spec: {}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.value, toFieldPath: metadata.namespace}
        - {type: ToCompositeFieldPath, fromFieldPath: status.value, toFieldPath: status.value}`) +
	composition("deep", "Deep", `
      - name: leaf
        base: {apiVersion: v1, kind: ConfigMap, metadata: {name: late}}
        patches: [{type: ToCompositeFieldPath, fromFieldPath: data.value, toFieldPath: status.value}]
        readinessChecks: [{type: NonEmpty, fieldPath: data.value}]`)

// definitionOf defines composites, with a version of their own where there is a scope.
func definitionOf(kind, scope, claim string) string {
	version, more := "v1", []string(nil)
	if scope != "" {
		version, more = "v2", []string{"scope: " + scope}
	}
	if claim != "" {
		more = append(more, fmt.Sprintf("claimNames: {kind: %s, plural: %ss}", claim, strings.ToLower(claim)), "connectionSecretKeys: [password]")
	}
	text := suite.XRD(version, kind, "value: {type: string}", "value: {type: string}", more...)
	return "---" + strings.ReplaceAll(text, "$GROUP", "sweep.example.com")
}

// composition composes a kind of resources.
func composition(name, kind, resources string) string {
	return fmt.Sprintf(`
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: sweep-%s}
spec:
  compositeTypeRef: {apiVersion: sweep.example.com/v1alpha1, kind: %s}
  mode: Pipeline
  writeConnectionSecretsToNamespace: default
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:%s
  - {step: ready, functionRef: {name: function-auto-ready}}
`, name, kind, resources)
}

// part is a ConfigMap with the composite's value.
func part(name string) string {
	return `
      - name: ` + name + `
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.value, toFieldPath: data.value}
        - {type: ToCompositeFieldPath, fromFieldPath: data.value, toFieldPath: status.value}`
}

var (
	secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	xrdKind    = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}
	revisions  = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositionRevision"}
)

// awaitComposites waits until all that serves composites is there.
func awaitComposites(t *testing.T, w *testkit.World) {
	t.Helper()
	for _, plural := range []string{"fives", "xstores", "xhighs", "middles", "deeps"} {
		w.Await(t, xrdKind, "", plural+".sweep.example.com", func(o *unstructured.Unstructured) error {
			if claimed, _, _ := unstructured.NestedMap(o.Object, "spec", "claimNames"); testkit.Condition(o, "Established") != "True" || claimed != nil && testkit.Condition(o, "Offered") != "True" {
				return errors.New("it isn't served")
			}
			return nil
		})
	}
	err := testkit.AwaitAny(t.Context(), w.Of(t, revisions, ""), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		if len(objects) < 7 {
			return fmt.Errorf("there are %d revisions", len(objects))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

const (
	five      = "apiVersion: sweep.example.com/v1alpha1\nkind: Five\nmetadata: {name: x, namespace: $NS}\nspec: {value: one, crossplane: {compositionRef: {name: sweep-five}}}\n"
	store     = "apiVersion: sweep.example.com/v1alpha1\nkind: Store\nmetadata: {name: x, namespace: $NS}\nspec: {value: one, writeConnectionSecretToRef: {name: x-connection}}\n"
	high      = "apiVersion: sweep.example.com/v1alpha1\nkind: High\nmetadata: {name: x, namespace: $NS}\nspec: {}\n"
	fiveAgain = "apiVersion: sweep.example.com/v1alpha1\nkind: Five\nmetadata: {name: x, namespace: $NS}\nspec: {value: two, crossplane: {compositionRef: {name: sweep-five}}}\n"
)

var (
	four       = strings.Replace(five, "sweep-five", "sweep-four", 1)
	other      = strings.Replace(five, "sweep-five", "sweep-other", 1)
	storeAgain = strings.Replace(store, "value: one", "value: two", 1)
)

// composed waits until a composite of the kind Five has a value, and is composed of so many
// objects of either kind.
func composed(value string, configMaps, secrets int) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) {
		t.Helper()
		ready(kind("Five"), value)(t, w, ns)
		w.Await(t, kind("Five"), ns, "x", func(o *unstructured.Unstructured) error {
			refs, _, _ := unstructured.NestedSlice(o.Object, "spec", "crossplane", "resourceRefs")
			if len(refs) != configMaps+secrets {
				return fmt.Errorf("it refers to %v", refs)
			}
			return testkit.IsReady(o)
		})
		for gvk, want := range map[schema.GroupVersionKind]int{configMap: configMaps, secretKind: secrets} {
			err := testkit.AwaitAny(t.Context(), w.Of(t, gvk, ns), metav1.ListOptions{LabelSelector: "crossplane.io/composite=x"}, func(objects map[string]*unstructured.Unstructured) error {
				if len(objects) != want {
					return fmt.Errorf("there are %d of %s, not %d", len(objects), gvk.Kind, want)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// connected waits until a claim of the kind Store is ready, and its Secret has its value.
func connected(value string) func(*testing.T, *testkit.World, string) {
	return both(ready(kind("Store"), value), func(t *testing.T, w *testkit.World, ns string) {
		w.Await(t, secretKind, ns, "x-connection", func(o *unstructured.Unstructured) error {
			if o == nil {
				return errors.New("there is none")
			}
			if got, _, _ := unstructured.NestedString(o.Object, "data", "password"); got != base64.StdEncoding.EncodeToString([]byte(value)) {
				return fmt.Errorf("the password is %q", got)
			}
			return nil
		})
		w.Await(t, kind("Store"), ns, "x", testkit.IsReady)
	})
}

// feed gives the ConfigMap at the bottom its value, once it is there.
func feed(t *testing.T, w *testkit.World, ns string) {
	t.Helper()
	w.Await(t, configMap, ns, "late", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("there is none")
		}
		return nil
	})
	apply(late)(t, w, ns)
}

func begun(text string, settled func(*testing.T, *testkit.World, string)) func(*testing.T, *testkit.World, string) {
	return both(apply(text), settled)
}

// composites are the scenarios of the composition dialect.
var composites = []scenario{
	{name: "composite: create", act: apply(five), settled: composed("one", 5, 0)},
	{name: "composite: update", before: begun(five, composed("one", 5, 0)), act: apply(fiveAgain), settled: composed("two", 5, 0)},
	{name: "composite: leave one out", before: begun(five, composed("one", 5, 0)), act: apply(four), settled: composed("one", 4, 0)},
	{name: "composite: another kind", before: begun(five, composed("one", 5, 0)), act: apply(other), settled: composed("one", 4, 1)},
	{
		name: "composite: delete", before: begun(five, composed("one", 5, 0)),
		act: remove(kind("Five"), metav1.DeletePropagationBackground), settled: gone(kind("Five")),
	},
	{
		name: "composite: delete in the foreground", hard: true, before: begun(five, composed("one", 5, 0)),
		act: remove(kind("Five"), metav1.DeletePropagationForeground), settled: gone(kind("Five")),
	},
	{
		name: "composite: delete and leave orphans", hard: true, before: begun(five, composed("one", 5, 0)),
		act: remove(kind("Five"), metav1.DeletePropagationOrphan), settled: gone(kind("Five")),
	},
	{hard: true, name: "claim: create", act: apply(store), settled: connected("one")},
	{hard: true, name: "claim: change", before: begun(store, connected("one")), act: apply(storeAgain), settled: connected("two")},
	{
		hard: true, name: "claim: delete", before: begun(store, connected("one")),
		act: remove(kind("Store"), metav1.DeletePropagationBackground), settled: gone(kind("Store")),
	},
	{hard: true, name: "claim: late value in a nest", act: both(apply(high), feed), settled: ready(kind("High"), "here")},
	{
		hard: true, name: "claim: delete a nest", before: both(both(apply(high), feed), ready(kind("High"), "here")),
		act: remove(kind("High"), metav1.DeletePropagationBackground), settled: gone(kind("High")),
	},
	{
		name: "claim: delete a nest, held by a finalizer", hard: true,
		before: both(both(both(apply(high), feed), ready(kind("High"), "here")), mend(configMap, "late", held)),
		act: both(both(remove(kind("High"), metav1.DeletePropagationBackground),
			told(kind("High"), "late", report.HeldByFinalizer)), mend(configMap, "late", free)),
		settled: gone(kind("High")),
	},
}
