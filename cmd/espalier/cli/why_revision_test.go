package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	xp "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

// partialRecord is what an account gathers that may read instances and definitions, and no revisions.
const partialRecord = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: vpc, uid: 526ea21c-4ea4-4725-a37c-cc9a67eeb452, generation: 1}
spec:
  schema: {apiVersion: v1alpha1, kind: Vpc}
  resources: []
status: {state: Active, servingRevision: 1, lastIssuedRevision: 1, observedGeneration: 1}
---
apiVersion: kro.run/v1alpha1
kind: Vpc
metadata:
  name: main
  namespace: team
  uid: 6c6dd21e-bdf1-4829-9a56-80c4d0623b97
  generation: 1
  labels:
    applyset.kubernetes.io/id: applyset-X1WLELXqUsKDQmsNM9SlTUSG67LcBx57qZeaBKTdCo4-v1
    kro.run/owned: "true"
    kro.run/resource-graph-definition-id: 526ea21c-4ea4-4725-a37c-cc9a67eeb452
    kro.run/resource-graph-definition-name: vpc
status:
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: "", observedGeneration: 1, lastTransitionTime: "2026-11-28T18:54:05Z"}
`

// TestWhyWithoutRevisions checks that why does not call a revision old that it cannot compare with others.
func TestWhyWithoutRevisions(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record.yaml")
	if err := os.WriteFile(record, []byte(partialRecord), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "why", "vpc/main", "-n", "team", "--from", record)
	if code != exitDone || !strings.Contains(stdout, "Vpc team/main is ready") || strings.Contains(stdout, "newest revision") {
		t.Errorf("%d %s", code, stdout)
	}
	if want := "note: cannot determine which revision composes it: there are no revisions of its definition vpc"; !strings.Contains(stderr, want) {
		t.Errorf("%s, want %s", stderr, want)
	}
}

// TestWhyOfWhatIsBeingDeleted checks that why does not look for what composes an instance: nothing does any more.
func TestWhyOfWhatIsBeingDeleted(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record.yaml")
	deleting := strings.Replace(partialRecord, "  namespace: team\n", "  namespace: team\n  deletionTimestamp: \"2026-11-28T18:55:05Z\"\n  finalizers: [espalier.dev/instance]\n", 1)
	if err := os.WriteFile(record, []byte(deleting), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "why", "vpc/main", "-n", "team", "--from", record)
	if code != exitNotReady || !strings.Contains(stdout, "Vpc team/main") || strings.Contains(stdout+stderr, "revision") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

// TestWhyNamesIgnoredNamespaces has resources that name a namespace, in the two functions that are built in.
func TestWhyNamesIgnoredNamespaces(t *testing.T) {
	child := func(kind, namespace, name, resource string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
		o.SetNamespace(namespace)
		o.SetName(name)
		o.SetAnnotations(map[string]string{xp.CompositionResourceNameAnnotation: resource})
		return o
	}
	revision := &xp.CompositionRevision{}
	revision.Name = "apps-1"
	for function, input := range map[string]string{
		"function-patch-and-transform": `{"resources":[
			{"name":"cfg","base":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"kube-system"}}},
			{"name":"role","base":{"apiVersion":"v1","kind":"Namespace","metadata":{"namespace":"kube-system"}}},
			{"name":"own","base":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"prod"}}},
			{"name":"patched","base":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"x"}},"patches":[{"fromFieldPath":"metadata.namespace"}]}]}`,
		"function-graph": `{"spec":{"resources":[{"id":"node","template":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"other"}}}]}}`,
	} {
		revision.Spec.Pipeline = append(revision.Spec.Pipeline, xp.PipelineStep{
			Step: function, FunctionRef: xp.FunctionReference{Name: function}, Input: &runtime.RawExtension{Raw: []byte(input)},
		})
	}
	children := []*unstructured.Unstructured{
		child("ConfigMap", "prod", "a", "cfg"), child("Namespace", "", "b", "role"), child("ConfigMap", "prod", "c", "own"),
		child("ConfigMap", "prod", "d", "patched"), child("ConfigMap", "prod", "e", "node"),
	}
	for scope, want := range map[xp.Scope][]string{
		xp.NamespacedScope: {
			"metadata.namespace: kube-system of resource cfg, because ConfigMap prod/a is composed in the namespace of the composite",
			"metadata.namespace: other of resource node, because ConfigMap prod/e is composed in the namespace of the composite",
		},
		xp.ClusterScope: nil,
	} {
		definition := &xp.CompositeResourceDefinition{}
		definition.Spec.Scope = scope
		got := ignoredNamespaces("apps-1", xrd.Snapshot{Definition: definition, Revisions: []*xp.CompositionRevision{revision}}, children)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scope, diff)
		}
	}
}
