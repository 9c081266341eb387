package providers

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// stack is a cluster with all that it stands on, in the wrong order.
const stack = `
apiVersion: sandbox.espalier.dev/v1alpha1
kind: Cluster
metadata: {name: $ID, namespace: $NS}
spec:
  forProvider: {nodes: 3, subnetIDSelector: {matchLabels: {of: $ID}}, roleIDRef: {name: $ID}}
  writeConnectionSecretToRef: {name: connection}
---
apiVersion: sandbox.espalier.dev/v1alpha1
kind: Role
metadata: {name: $ID, namespace: $NS}
spec: {forProvider: {trust: cluster.sandbox}}
---
apiVersion: sandbox.espalier.dev/v1alpha1
kind: Subnet
metadata: {name: $ID-a, namespace: $NS, labels: {of: $ID}}
spec: {forProvider: {cidr: 10.0.1.0/24, networkIDRef: {name: $ID}}}
---
apiVersion: sandbox.espalier.dev/v1alpha1
kind: Network
metadata: {name: $ID, namespace: $NS}
spec: {forProvider: {cidr: 10.0.0.0/16}}
`

func TestAStackIsCreatedInAnyOrderAndDeleted(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, stack)
	id := s.Expand("$ID")
	cluster := v1alpha1.GroupVersion.WithKind("Cluster")
	o := s.Await(t, cluster, s.NS, id, func(o *unstructured.Unstructured) error {
		if err := is("ReconcileSuccess")(o); err != nil {
			return err
		}
		if endpoint, _, _ := unstructured.NestedString(o.Object, "status", "atProvider", "endpoint"); endpoint == "" {
			return errors.New("has no endpoint")
		}
		return nil
	})
	if subnets, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "forProvider", "subnetIDs"); len(subnets) != 1 || subnets[0] != id+"-a" {
		t.Errorf("its subnets are %v", subnets)
	}
	secret := s.Await(t, suite.Secret, s.NS, "connection", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		return nil
	})
	if data, _, _ := unstructured.NestedMap(secret.Object, "data"); data["endpoint"] == nil || data["certificate"] == nil {
		t.Errorf("the connection secret has %d keys", len(data))
	}

	t.Log("what it publishes is put back")
	was, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	again := func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		if data["endpoint"] != was["endpoint"] || data["certificate"] != was["certificate"] {
			return fmt.Errorf("it holds other than it did: %d keys", len(data))
		}
		return nil
	}
	secrets := s.Resource(t, suite.Secret, s.NS)
	if _, err := secrets.Patch(t.Context(), "connection", types.MergePatchType, []byte(`{"data":{"endpoint":"bm93aGVyZQ==","certificate":null,"mine":"bWluZQ=="}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	edited := s.Await(t, suite.Secret, s.NS, "connection", again)
	if mine, _, _ := unstructured.NestedString(edited.Object, "data", "mine"); mine == "" {
		t.Error("what others keep in it has gone")
	}
	s.Delete(t, suite.Secret, s.NS, "connection")
	made := s.Await(t, suite.Secret, s.NS, "connection", again)
	if edited.GetUID() != secret.GetUID() || made.GetUID() == secret.GetUID() {
		t.Error("it was recreated when it was edited, or not when it was deleted")
	}
	s.Await(t, cluster, s.NS, id, is("ReconcileSuccess"))

	t.Log("what stands on something keeps it")
	network := v1alpha1.GroupVersion.WithKind("Network")
	s.Delete(t, network, s.NS, id)
	s.Await(t, network, s.NS, id, func(o *unstructured.Unstructured) error {
		if err := is("ReconcileError")(o); err != nil {
			return err
		}
		return contains(testkit.ConditionMessage(o, "Synced"), "DependencyViolation")
	})
	s.Delete(t, cluster, s.NS, id)
	s.AwaitGone(t, cluster, s.NS, id)
	s.Delete(t, v1alpha1.GroupVersion.WithKind("Subnet"), s.NS, id+"-a")
	s.AwaitGone(t, network, s.NS, id)
	s.Delete(t, v1alpha1.GroupVersion.WithKind("Role"), s.NS, id)
	s.AwaitGone(t, v1alpha1.GroupVersion.WithKind("Role"), s.NS, id)
}
