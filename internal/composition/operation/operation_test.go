package operation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/operation/plan"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestObjectsThatCannotBeApplied(t *testing.T) {
	desired := &pipeline.Desired{Resources: map[string]pipeline.Resource{
		"fine":     {Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}},
		"nameless": {Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
		"record":   {Object: map[string]any{"apiVersion": "internal.kro.run/v1alpha1", "kind": "GraphRevision", "metadata": map[string]any{"name": "b"}}},
	}}
	_, err := objectsOf(desired)
	for _, want := range []string{`resource "nameless" (ConfigMap) has no metadata.name`, `resource "record": GraphRevision objects of internal.kro.run are records`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	delete(desired.Resources, "nameless")
	delete(desired.Resources, "record")
	if objects, err := objectsOf(desired); err != nil || len(objects) != 1 {
		t.Errorf("%v, %v", objects, err)
	}
}

func TestOutputsThatCannotBeStored(t *testing.T) {
	op, err := decode[opsv1alpha1.Operation](parsed(t, "{spec: {pipeline: [{step: a, functionRef: {name: f}}, {step: b, functionRef: {name: f}}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	var secrets composite.Secrets
	secret := parsed(t, "{apiVersion: v1, kind: Secret, data: {key: Y2FuYXJ5MTIz}}") // canary123
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	secrets.AddObject(secret)
	for name, tc := range map[string]struct {
		outputs map[string]map[string]any
		says    string
	}{
		"Data of a Secret":   {map[string]map[string]any{"b": {"text": "it is canary123"}}, `step "b": its output has data of a Secret`},
		"Too much":           {map[string]map[string]any{"a": {"text": strings.Repeat("x", maxOutputs)}}, "more than 524288 bytes"},
		"Something small":    {map[string]map[string]any{"b": {"n": 1.0}}, ""},
		"No output is given": {nil, ""},
	} {
		out, err := outputsOf(op, tc.outputs, &secrets)
		switch {
		case tc.says == "" && (err != nil || len(out) != len(tc.outputs)):
			t.Errorf("%s: %v, %v", name, out, err)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: the error does not say %q: %v", name, tc.says, err)
		}
	}
}

func TestEachStepGetsTheWatchedObject(t *testing.T) {
	owner := parsed(t, `
apiVersion: ops.crossplane.io/v1alpha1
kind: WatchOperation
metadata: {name: w, uid: u}
spec:
  watch: {apiVersion: v1, kind: ConfigMap}
  operationTemplate:
    metadata: {labels: {mine: label}, annotations: {mine: annotation}}
    spec:
      pipeline:
      - {step: a, functionRef: {name: f}}
      - {step: b, functionRef: {name: f}, requirements: {requiredResources: [{requirementName: own, apiVersion: v1, kind: Secret, namespace: prod, name: keys}]}}
`)
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	change := plan.Change{Object: plan.Object{Namespace: "prod", Name: "x", UID: "1", ResourceVersion: "7"}, Operation: "w-1234567"}
	got, err := WatchedOperation(owner, kind, change)
	if err != nil {
		t.Fatal(err)
	}
	want := parsed(t, `
apiVersion: ops.crossplane.io/v1alpha1
kind: Operation
metadata:
  name: w-1234567
  labels: {mine: label, ops.crossplane.io/watchoperation: w}
  annotations:
    mine: annotation
    ops.crossplane.io/watched-resource-apiversion: v1
    ops.crossplane.io/watched-resource-kind: ConfigMap
    ops.crossplane.io/watched-resource-name: x
    ops.crossplane.io/watched-resource-namespace: prod
    ops.crossplane.io/watched-resource-resourceversion: "7"
  ownerReferences: [{apiVersion: ops.crossplane.io/v1alpha1, kind: WatchOperation, name: w, uid: u, controller: true, blockOwnerDeletion: true}]
spec:
  pipeline:
  - step: a
    functionRef: {name: f}
    requirements: {requiredResources: [{requirementName: ops.crossplane.io/watched-resource, apiVersion: v1, kind: ConfigMap, namespace: prod, name: x}]}
  - step: b
    functionRef: {name: f}
    requirements:
      requiredResources:
      - {requirementName: own, apiVersion: v1, kind: Secret, namespace: prod, name: keys}
      - {requirementName: ops.crossplane.io/watched-resource, apiVersion: v1, kind: ConfigMap, namespace: prod, name: x}
`)
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Error(diff)
	}
}
