package steps

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// compositeDefinitions are definitions and compositions of Crossplane's dialect: five
// ConfigMaps by two functions, which two further compositions reduce to four or replace one of
// by a Secret; a claim with a connection Secret; and a claim of three composites, two of them
// cluster-scoped, above a ConfigMap whose value comes late.
var compositeDefinitions = XRD("Five", "Namespaced", "") + XRD("XStore", "", "Store") +
	XRD("XHigh", "", "High") + XRD("Middle", "Cluster", "") + XRD("Deep", "Namespaced", "") +
	Composition("five", "Five", ComposedConfigMap("a")+ComposedConfigMap("b")+ComposedConfigMap("c")+ComposedConfigMap("d")+ComposedConfigMap("e")) +
	Composition("four", "Five", ComposedConfigMap("a")+ComposedConfigMap("b")+ComposedConfigMap("c")+ComposedConfigMap("d")) +
	Composition("other", "Five", ComposedConfigMap("a")+ComposedConfigMap("b")+ComposedConfigMap("c")+ComposedConfigMap("d")+`
      - name: e
        base: {apiVersion: v1, kind: Secret}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.value, toFieldPath: stringData.value}]
        readinessChecks: [{type: None}]`) +
	Composition("store", "XStore", `
      - name: store
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: metadata.namespace}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.value, toFieldPath: data.value}
        - {type: ToCompositeFieldPath, fromFieldPath: data.value, toFieldPath: status.value}
        connectionDetails:
        - {name: password, type: FromFieldPath, fromFieldPath: data.value}`) +
	Composition("high", "XHigh", `
      - name: middle
        base: {apiVersion: sweep.example.com/v1alpha1, kind: Middle}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: spec.value}
        - {type: ToCompositeFieldPath, fromFieldPath: status.value, toFieldPath: status.value}`) +
	Composition("middle", "Middle", `
      - name: deep
        base: {apiVersion: sweep.example.com/v1alpha1, kind: Deep, spec: {}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.value, toFieldPath: metadata.namespace}
        - {type: ToCompositeFieldPath, fromFieldPath: status.value, toFieldPath: status.value}`) +
	Composition("deep", "Deep", `
      - name: leaf
        base: {apiVersion: v1, kind: ConfigMap, metadata: {name: late}}
        patches: [{type: ToCompositeFieldPath, fromFieldPath: data.value, toFieldPath: status.value}]
        readinessChecks: [{type: NonEmpty, fieldPath: data.value}]`)

// XRD defines composites: in version v2 with a scope, in v1 without, optionally with a claim.
func XRD(kind, scope, claim string) string {
	version, more := "v1", []string(nil)
	if scope != "" {
		version, more = "v2", []string{"scope: " + scope}
	}
	if claim != "" {
		more = append(more, fmt.Sprintf("claimNames: {kind: %s, plural: %ss}", claim, strings.ToLower(claim)), "connectionSecretKeys: [password]")
	}
	text := suite.XRD(version, kind, "value: {type: string}", "value: {type: string}", more...)
	return "---" + expand(text)
}

// Composition is a composition of a kind, with resources for function-patch-and-transform.
func Composition(name, kind, resources string) string {
	steps := suite.PatchAndTransform(resources+"\n") + suite.AutoReady
	text := suite.Composition(name, kind, steps, "writeConnectionSecretsToNamespace: default")
	return "---" + expand(text)
}

// ComposedConfigMap is a composed ConfigMap with the composite's value.
func ComposedConfigMap(name string) string {
	return `
      - name: ` + name + `
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.value, toFieldPath: data.value}
        - {type: ToCompositeFieldPath, fromFieldPath: data.value, toFieldPath: status.value}`
}

var (
	xrdKind                 = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}
	compositionRevisionKind = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositionRevision"}
)

// awaitComposites waits until composites and claims are served, and compositions have revisions.
func awaitComposites(t *testing.T, w *testkit.Cluster) {
	t.Helper()
	for _, plural := range []string{"fives", "xstores", "xhighs", "middles", "deeps"} {
		w.Await(t, xrdKind, "", plural+".sweep.example.com", func(o *unstructured.Unstructured) error {
			if claimed, _, _ := unstructured.NestedMap(o.Object, "spec", "claimNames"); testkit.ConditionStatus(o, "Established") != "True" ||
				claimed != nil && testkit.ConditionStatus(o, "Offered") != "True" {
				return errors.New("is not served")
			}
			return nil
		})
	}
	w.AwaitList(t, compositionRevisionKind, "", "", func(objects map[string]*unstructured.Unstructured) error {
		if len(objects) < 7 {
			return fmt.Errorf("there are %d revisions", len(objects))
		}
		return nil
	})
}

// AwaitComposed waits until the Five x has a value in its status and the given numbers of
// ConfigMaps and Secrets.
func AwaitComposed(value string, configMaps, secrets int) Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		t.Helper()
		AwaitReady(Kind("Five"), value)(t, w, ns)
		w.Await(t, Kind("Five"), ns, "x", func(o *unstructured.Unstructured) error {
			refs, _, _ := unstructured.NestedSlice(o.Object, "spec", "crossplane", "resourceRefs")
			if len(refs) != configMaps+secrets {
				return fmt.Errorf("it refers to %v", refs)
			}
			return testkit.IsReady(o)
		})
		for gvk, want := range map[schema.GroupVersionKind]int{suite.ConfigMap: configMaps, suite.Secret: secrets} {
			w.AwaitList(t, gvk, ns, "crossplane.io/composite=x", func(objects map[string]*unstructured.Unstructured) error {
				if len(objects) != want {
					return fmt.Errorf("%d objects of kind %s, not %d", len(objects), gvk.Kind, want)
				}
				return nil
			})
		}
	}
}
