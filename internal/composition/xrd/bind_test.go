package xrd_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestWhatAClaimGivesItsComposite(t *testing.T) {
	claim := xrd.NewInstance(object(t, `
apiVersion: acme.example.com/v1
kind: Database
metadata: {namespace: prod, name: orders}
spec:
  parameters: {size: small}
  compositionRef: {name: small}
  compositionSelector: {matchLabels: {cloud: aws}}
  compositionRevisionRef: {name: small-1}
  compositionRevisionSelector: {matchLabels: {channel: stable}}
  compositionUpdatePolicy: Manual
  compositeDeletePolicy: Foreground
  resourceRef: {apiVersion: acme.example.com/v1, kind: XDatabase, name: orders-x7f2k}
  writeConnectionSecretToRef: {name: orders}
  resourceRefs: [{apiVersion: v1, kind: Secret, name: theirs}]
  claimRef: {apiVersion: acme.example.com/v1, kind: Database, namespace: theirs, name: orders}
`), xrd.ClaimLayout())
	want := object(t, `
parameters: {size: small}
compositionRef: {name: small}
compositionSelector: {matchLabels: {cloud: aws}}
compositionRevisionSelector: {matchLabels: {channel: stable}}
compositionUpdatePolicy: Manual
claimRef: {apiVersion: acme.example.com/v1, kind: Database, namespace: prod, name: orders}
`).Object
	want["compositionRevisionRef"] = map[string]any{"name": "small-1"}
	same(t, "to one that follows revisions still", want, xrd.SpecFromClaim(claim, instance()))
	same(t, "to one that follows none", want, xrd.SpecFromClaim(claim, instance(manual)))
	claim.SetUpdatePolicy(v1.UpdateAutomatic)
	want["compositionUpdatePolicy"] = "Automatic"
	delete(want, "compositionRevisionRef")
	same(t, "to one that is to follow revisions again", want, xrd.SpecFromClaim(claim, instance(manual)))
	unstructured.RemoveNestedField(claim.Object().Object, "spec", "compositionUpdatePolicy")
	delete(want, "compositionUpdatePolicy")
	same(t, "where it says nothing, to one that follows revisions", want, xrd.SpecFromClaim(claim, instance()))
	want["compositionRevisionRef"] = map[string]any{"name": "small-1"}
	same(t, "where it says nothing, to one that follows none", want, xrd.SpecFromClaim(claim, instance(manual)))
	if claim.RevisionName() != "small-1" || claim.DeletePolicy() != v1.DeleteForeground {
		t.Error("the claim has lost something")
	}
}

func TestWhatAClaimShowsOfItsComposite(t *testing.T) {
	composite := xrd.NewInstance(object(t, `
status:
  address: db.example.com
  conditions: [{type: Ready}]
  connectionDetails: {lastPublishedTime: "2026-08-01T12:00:00Z"}
  claimConditionTypes: [Backup]
  pendingResources: []
`), xrd.LayoutOf(v1.LegacyClusterScope))
	same(t, "status", map[string]any{"address": "db.example.com"}, xrd.StatusForClaim(composite, legacy()))
	same(t, "no status", map[string]any{}, xrd.StatusForClaim(instance(), legacy()))
}
