package compositions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// nest is a claim of a composite that is composed of one that is composed of one that is
// composed of a ConfigMap in the claim's namespace.
var nest = suite.XRD("v1", "XTop", "size: {type: string}", "address: {type: string}", "claimNames: {kind: Top, plural: tops}", "connectionSecretKeys: [password]") + "---" +
	suite.XRD("v2", "Middle", "size: {type: string}, namespace: {type: string}", "address: {type: string}", "scope: Cluster") + "---" +
	suite.XRD("v2", "Bottom", "size: {type: string}", "address: {type: string}", "scope: Namespaced") + "---" +
	suite.Composition("top", "XTop", suite.PatchAndTransform(`
      - name: middle
        base: {apiVersion: $GROUP/v1alpha1, kind: Middle}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.size}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: spec.namespace}
        - {type: ToCompositeFieldPath, fromFieldPath: status.address, toFieldPath: status.address}
        connectionDetails:
        - {name: password, type: FromFieldPath, fromFieldPath: status.address}
        - {name: hidden, type: FromFieldPath, fromFieldPath: status.address}
`)+suite.AutoReady, "writeConnectionSecretsToNamespace: $NS") + "---" +
	suite.Composition("middle", "Middle", suite.PatchAndTransform(`
      - name: bottom
        base: {apiVersion: $GROUP/v1alpha1, kind: Bottom}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.namespace, toFieldPath: metadata.namespace}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.size}
        - {type: ToCompositeFieldPath, fromFieldPath: status.address, toFieldPath: status.address}
`)+suite.AutoReady) + "---" +
	suite.Composition("bottom", "Bottom", suite.PatchAndTransform(`
      - name: leaf
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: data.size}
        - {type: ToCompositeFieldPath, fromFieldPath: data.address, toFieldPath: status.address}
`)+suite.AutoReady)

// awaitLeaf waits for the ConfigMap at the bottom.
func awaitLeaf(t *testing.T, s suite.Suite, composite string) *unstructured.Unstructured {
	t.Helper()
	var leaf *unstructured.Unstructured
	s.AwaitList(t, suite.ConfigMap, s.NS, "crossplane.io/composite="+composite, func(objects map[string]*unstructured.Unstructured) error {
		for _, leaf = range objects {
			return nil
		}
		return errors.New("there is no leaf yet")
	})
	return leaf
}

func TestAClaimShowsTheStatusOfItsComposite(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top := s.Kind("Top")
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: Top
metadata:
  namespace: $NS
  name: shop
  labels: {team: a}
  annotations: {crossplane.io/external-name: outside}
spec: {size: small, writeConnectionSecretToRef: {name: shop-connection}}`)
	claim := s.Await(t, top, s.NS, "shop", available)
	name := text(claim, "spec", "resourceRef", "name")
	if !strings.HasPrefix(name, "shop-") || text(claim, "spec", "resourceRef", "kind") != "XTop" {
		t.Fatalf("its composite is %v", claim.Object["spec"])
	}
	composite := s.Get(t, s.Kind("XTop"), "", name)
	if err := available(composite); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]string{"crossplane.io/claim-name": "shop", "crossplane.io/claim-namespace": s.NS, "team": "a", "crossplane.io/composite": name} {
		if got := composite.GetLabels()[key]; got != want {
			t.Errorf("label %s of the composite is %q", key, got)
		}
	}
	if composite.GetAnnotations()["crossplane.io/external-name"] != "outside" || text(composite, "spec", "claimRef", "name") != "shop" {
		t.Errorf("the composite is %v", composite.Object)
	}
	if text(claim, "spec", "compositionRef", "name") != s.Name("top") || text(claim, "spec", "compositionRevisionRef", "name") == "" {
		t.Errorf("the claim does not say by what it is composed: %v", claim.Object["spec"])
	}

	leaf := awaitLeaf(t, s, name)
	for key, want := range map[string]string{"crossplane.io/claim-name": "shop", "crossplane.io/claim-namespace": s.NS} {
		if got := leaf.GetLabels()[key]; got != want {
			t.Errorf("label %s of the leaf is %q", key, got)
		}
	}
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+leaf.GetName()+`}, data: {address: there}}`)
	s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if got := text(o, "status", "address"); got != "there" {
			return fmt.Errorf("the address is %q", got)
		}
		return available(o)
	})
	secret := s.Await(t, suite.Secret, s.NS, "shop-connection", func(o *unstructured.Unstructured) error {
		if o == nil || text(o, "data", "password") == "" {
			return errors.New("no password yet")
		}
		return nil
	})
	if text(secret, "data", "hidden") != "" || text(secret, "type") != "connection.crossplane.io/v1alpha1" {
		t.Errorf("the Secret has %v", secret.Object)
	}
	if !metav1.IsControlledBy(secret, s.Get(t, s.Kind("Top"), s.NS, "shop")) {
		t.Errorf("the Secret's owners are %v", secret.GetOwnerReferences())
	}

	s.Delete(t, top, s.NS, "shop")
	s.AwaitGone(t, top, s.NS, "shop")
	for kind, at := range map[string]string{"XTop": "", "Middle": "", "Bottom": s.NS} {
		if list := s.List(t, s.Kind(kind), at, ""); len(list) > 0 {
			t.Errorf("of %s there is left %v", kind, list)
		}
	}
}

func TestADeletedClaimReportsItsBlocker(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top := s.Kind("Top")
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Top, metadata: {namespace: $NS, name: shop}, spec: {size: small}}`)
	claim := s.Await(t, top, s.NS, "shop", available)
	leaf := awaitLeaf(t, s, text(claim, "spec", "resourceRef", "name"))
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+leaf.GetName()+`, finalizers: [example.com/hold]}}`)

	s.Delete(t, top, s.NS, "shop")
	s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
		deletion := report.ReadDeletion(o)
		if deletion == nil || len(deletion.Blockers) != 1 {
			return fmt.Errorf("status is %v", o.Object["status"])
		}
		deepest := deletion.Blockers[0].RootCause()
		if deepest.Object.Name != leaf.GetName() || deepest.Reason != report.HeldByFinalizer {
			return fmt.Errorf("the deepest cause is %v", deepest)
		}
		return hasCondition(o, "Ready", "False", "Deleting", "example.com/hold")
	})
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+leaf.GetName()+`, finalizers: []}}`)
	s.AwaitGone(t, top, s.NS, "shop")
}
