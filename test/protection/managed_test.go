package protection

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// TestAnExternalResourceStaysWhileItIsInUse deletes one that nobody asked
// about: without a webhook the API server takes it as deleted, but the bucket stays.
func TestAnExternalResourceStaysWhileItIsInUse(t *testing.T) {
	s := suite.New(t)
	bucket := v1alpha1.GroupVersion.WithKind("Bucket")
	name := "b-" + s.NS
	s.Apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: "+name+", namespace: $NS}\nspec: {forProvider: {versioning: true}}\n")
	s.AwaitReady(t, bucket, s.NS, name)
	s.Apply(t, `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  reason: holds the ledger
  of: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, resourceRef: {name: `+name+`}}
`)
	awaitReady(t, s, "uses")
	s.Delete(t, bucket, s.NS, name)
	s.Await(t, bucket, s.NS, name, func(o *unstructured.Unstructured) error {
		switch {
		case o == nil:
			return errors.New("is gone")
		case testkit.ConditionReason(o, "Synced") != "InUse" || !strings.Contains(testkit.ConditionMessage(o, "Synced"), "holds the ledger"):
			return fmt.Errorf("Synced: %s: %s", testkit.ConditionReason(o, "Synced"), testkit.ConditionMessage(o, "Synced"))
		}
		return nil
	})
	key := cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: name}
	if _, err := sky.Get(key); err != nil {
		t.Errorf("the bucket: %v", err)
	}
	s.Delete(t, usageKind, s.NS, "uses")
	s.AwaitGone(t, bucket, s.NS, name)
	if _, err := sky.Get(key); !errors.Is(err, cloud.NotFound) {
		t.Errorf("then the bucket: %v", err)
	}
}
