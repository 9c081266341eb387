package plan_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

const (
	deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: prod, labels: {app: web, tier: front}},
  spec: {replicas: 3, selector: {matchLabels: {app: web}}, strategy: {type: RollingUpdate},
    template: {metadata: {labels: {app: web, tier: front}}, spec: {serviceAccountName: web, containers: [
      {name: web, image: "nginx:1.29", args: [a, b], ports: [{containerPort: 80, protocol: TCP, name: http}, {containerPort: 443, protocol: TCP, name: https}],
       env: [{name: A, value: "1"}, {name: B, value: "2"}, {name: C, value: "3"}], resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: 100m, memory: 128Mi}}},
      {name: log, image: "log:1", ports: [{containerPort: 9000, protocol: TCP}]}]}}}}`
	deploymentFields = `{"f:metadata":{"f:labels":{"f:app":{},"f:tier":{}},"f:annotations":{"f:a":{},"f:b":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:strategy":{"f:type":{}},
  "f:template":{"f:metadata":{"f:labels":{"f:app":{},"f:tier":{}}},"f:spec":{"f:containers":{
    "k:{\"name\":\"log\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":9000,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}},
    "k:{\"name\":\"web\"}":{".":{},"f:args":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"B\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"C\"}":{".":{},"f:name":{},"f:value":{}}},
      "f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},
      "f:resources":{"f:limits":{"f:cpu":{},"f:memory":{}},"f:requests":{"f:cpu":{},"f:memory":{}}}}},"f:serviceAccountName":{}}}}}`
)

// BenchmarkLostFields computes the drift of a Deployment with two containers, none of whose
// fields is lost.
func BenchmarkLostFields(b *testing.B) {
	desired := &unstructured.Unstructured{Object: document(b, deployment)}
	current := desired.DeepCopy()
	current.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: &metav1.FieldsV1{Raw: []byte(deploymentFields)}}})
	b.ReportAllocs()
	for b.Loop() {
		if lost := plan.LostFields(desired, current, v1alpha1.ChildManager); len(lost) > 0 {
			b.Fatal(lost)
		}
	}
}

// BenchmarkComputeAtRest decides on an instance with five Deployments that are as they were applied.
func BenchmarkComputeAtRest(b *testing.B) {
	var nodes []plan.Node
	children := map[string][]*unstructured.Unstructured{}
	for i := range 5 {
		object := &unstructured.Unstructured{Object: document(b, deployment)}
		object.SetName(fmt.Sprint("web-", i))
		node := has(plan.Node{ID: fmt.Sprint("web", i), Kind: object.GroupVersionKind(), Layer: i % 3, Object: object})
		nodes, children[node.ID] = append(nodes, node), append(children[node.ID], node.Observed)
	}
	facts := plan.Facts{Instance: instance(), Now: now, Owned: children}
	b.ReportAllocs()
	for b.Loop() {
		for _, step := range plan.Compute(plan.Desired{Nodes: nodes}, facts, plan.History{}, owner, v1alpha1.ChildManager).Steps {
			if step.Action != plan.Keep {
				b.Fatal(step.Node, step.Action)
			}
		}
	}
}
