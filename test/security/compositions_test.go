package security

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAClaimNamesNoObjectOfOthers has a tenant choose, by a field of a claim, the name of an existing
// object in a namespace where the tenant has no permissions.
func TestAClaimNamesNoObjectOfOthers(t *testing.T) {
	s := suite.New(t)
	platform := testkit.Namespace(t, s.Config)
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: [$GROUP], resources: [teams], verbs: [create, delete, get, patch]}]`)
	composition := func(annotations string) string {
		return suite.Composition("team", "XTeam", suite.PatchAndTransform(`
      - name: settings
        base: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: `+platform+annotations+`}, data: {composed: "true"}}
        patches: [{fromFieldPath: spec.settings, toFieldPath: metadata.name}]
        readinessChecks: [{type: None}]
`))
	}
	s.Apply(t, suite.XRD("v1", "XTeam", "settings: {type: string}", "", "claimNames: {kind: Team, plural: teams}")+"---"+composition("")+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: precious, namespace: `+platform+`}
data: {whose: platform}
`)
	s.Await(t, schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}, "", s.Expand("xteams.$GROUP"), suite.HasCondition("Offered", "True", "WatchingCompositeResourceClaim"))
	if err := apply(t, s, tenant, `
apiVersion: $GROUP/v1alpha1
kind: Team
metadata: {name: thief, namespace: $NS}
spec: {settings: precious}
`); err != nil {
		t.Fatal(err)
	}
	s.Await(t, s.Kind("Team"), s.NS, "thief", suite.HasCondition("Ready", "False", "Waiting", "already exists", "espalier.dev/adopt: IfUnowned"))
	if composed, _, _ := unstructured.NestedString(s.Get(t, suite.ConfigMap, platform, "precious").Object, "data", "composed"); composed != "" {
		t.Error("a claim has changed an object of the platform")
	}
	tenant.Delete(t, s.Kind("Team"), s.NS, "thief")
	s.AwaitGone(t, s.Kind("Team"), s.NS, "thief")
	if s.Get(t, suite.ConfigMap, platform, "precious") == nil {
		t.Error("an object of the platform was deleted with a claim")
	}

	s.Apply(t, composition(", annotations: {espalier.dev/adopt: IfUnowned}"))
	if err := apply(t, s, tenant, `
apiVersion: $GROUP/v1alpha1
kind: Team
metadata: {name: heir, namespace: $NS}
spec: {settings: precious}
`); err != nil {
		t.Fatal(err)
	}
	s.Await(t, suite.ConfigMap, platform, "precious", suite.HasField("true", "data", "composed"))
}

// TestACompositionTakesOverNoDefinition has the author of a composition, who may neither write
// definitions nor use the service account of one, compose a definition that exists. The controllers may
// patch definitions and impersonate that account, so that nothing but this rule keeps the author from
// reading and writing as the account.
func TestACompositionTakesOverNoDefinition(t *testing.T) {
	s := suite.New(t)
	author := user(t, s, "author", "", `[{apiGroups: [apiextensions.crossplane.io], resources: [compositeresourcedefinitions, compositions], verbs: [create, get, patch]}, {apiGroups: [$GROUP], resources: [xthiefs], verbs: [create, get]}]`)
	const definition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-site}
spec:
  serviceAccount: {namespace: $NS, name: builder}
  schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP}
  resources: [{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {text: platform}}}]
`
	s.Apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: builder, namespace: $NS}\n---"+fmt.Sprintf(accountRules, "builder")+"---"+definition)
	s.AwaitDefinitions(t, "site")
	if err := apply(t, s, author, suite.XRD("v2", "XThief", "x: {type: string}", "", "scope: Cluster")+"---"+suite.Composition("thief", "XThief", suite.PatchAndTransform(`
      - name: definition
        base:
          apiVersion: kro.run/v1alpha1
          kind: ResourceGraphDefinition
          metadata: {name: $ID-site, annotations: {espalier.dev/adopt: IfUnowned}}
          spec:
            serviceAccount: {namespace: $NS, name: builder}
            schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP}
            resources: [{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {text: thief}}}]
        readinessChecks: [{type: None}]
`))); err != nil {
		t.Fatal(err)
	}
	s.Await(t, schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v2", Kind: "CompositeResourceDefinition"}, "", s.Expand("xthiefs.$GROUP"), suite.HasCondition("Established", "True", "WatchingCompositeResource"))
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: XThief\nmetadata: {name: $ID-x}\nspec: {}\n")
	s.Await(t, s.Kind("XThief"), "", s.Name("x"), suite.HasCondition("Synced", "False", "ReconcileError", "already exists"))
	s.Await(t, suite.RGD, "", s.Name("site"), func(o *unstructured.Unstructured) error {
		if text := fmt.Sprint(o.Object["spec"]); strings.Contains(text, "thief") {
			t.Error("the definition is another one: " + text)
		}
		return nil
	})
}
