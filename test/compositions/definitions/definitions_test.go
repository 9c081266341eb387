package definitions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestADefinitionIsEstablished(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, definitionText("v2", "App", ""))
	d := c.Await(t, definition, "", c.name("apps"), all(isEstablished, finalizersAre("defined.apiextensions.crossplane.io"),
		fieldIs(c.Group+"/v1", "status", "controllers", "compositeResourceType", "apiVersion"), fieldIs("App", "status", "controllers", "compositeResourceType", "kind")))
	if testkit.ConditionStatus(d, "Offered") != "" {
		t.Error("it offers claims")
	}
	kind := c.Get(t, crdKind, "", c.name("apps"))
	if owner := metav1.GetControllerOf(kind); owner == nil || owner.UID != d.GetUID() || owner.Kind != "CompositeResourceDefinition" {
		t.Errorf("it is controlled by %+v", owner)
	}
	if err := fieldIs("Namespaced", "spec", "scope")(kind); err != nil {
		t.Error(err)
	}
	c.Apply(t, "\napiVersion: $GROUP/v1\nkind: App\nmetadata: {name: a, namespace: $NS}\nspec: {size: small}\n")
	c.Await(t, c.kind("App"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
	s := c.port.await(t, c.kind("App"), snapshotHas(0, 0))
	if s.of.UID != d.GetUID() || s.used[0].Definition.Name != d.GetName() {
		t.Errorf("it is served for %s", s.of.Name)
	}
}

// TestTransitionsAreEvents, and nothing else is.
func TestTransitionsAreEvents(t *testing.T) {
	c := newTestCluster(t)
	c.NS = "default" // where events about cluster-scoped objects are
	c.Apply(t, definitionText("v1", "XApp", claimable))
	c.AwaitEvent(t, c.name("xapps"), "EstablishComposite", "the kind is served")
	c.AwaitEvent(t, c.name("xapps"), "OfferClaim", "the kind is served")
	c.Apply(t, definitionText("v1", "XApp", ""))
	c.AwaitEvent(t, c.name("xapps"), "EstablishComposite", "cannot be removed")
	c.Delete(t, definition, "", c.name("xapps"))
	c.AwaitEvent(t, c.name("xapps"), "TerminateComposite")
	c.AwaitEvent(t, c.name("xapps"), "RedactClaim")
	c.Apply(t, compositionText("small", "App", ""))
	c.AwaitEvent(t, c.name("small"), "CreateRevision", "created revision 1, "+c.name("small")+"-")
}

func TestADefinitionServesClaims(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, definitionText("v1", "XApp", claimable))
	c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered,
		finalizersAre("defined.apiextensions.crossplane.io", "offered.apiextensions.crossplane.io"),
		fieldIs("XApp", "status", "controllers", "compositeResourceType", "kind"), fieldIs("Claim", "status", "controllers", "compositeResourceClaimType", "kind")))
	c.Apply(t, "\napiVersion: $GROUP/v1\nkind: Claim\nmetadata: {name: a, namespace: $NS}\nspec: {size: small}\n---\napiVersion: $GROUP/v1\nkind: XApp\nmetadata: {name: a}\nspec: {size: small}\n")
	c.Await(t, c.kind("Claim"), c.NS, "a", all(finalizersAre("finalizer.apiextensions.crossplane.io")))
	c.Await(t, c.kind("XApp"), "", "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
}

// TestClaimNamesMayBeAddedButNotRemoved adds claimNames to a definition, and then tries to remove
// them.
func TestClaimNamesMayBeAddedButNotRemoved(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, definitionText("v1", "XApp", ""))
	c.Await(t, definition, "", c.name("xapps"), isEstablished)
	c.Apply(t, definitionText("v1", "XApp", claimable))
	c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))

	t.Log("they cannot be removed")
	c.Apply(t, definitionText("v1", "XApp", ""))
	c.Await(t, definition, "", c.name("xapps"), all(conditionIs("Established", "False", "InvalidDefinition", "spec.claimNames: cannot be removed", "the last valid definition is still served"), conditionIs("Offered", "False", "InvalidDefinition")))
	c.Apply(t, "\napiVersion: $GROUP/v1\nkind: Claim\nmetadata: {name: a, namespace: $NS}\nspec: {}\n")
	c.Await(t, c.kind("Claim"), c.NS, "a", all(finalizersAre("finalizer.apiextensions.crossplane.io")))
	c.Apply(t, definitionText("v1", "XApp", claimable))
	c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))
}

// TestDefaultsOfDefinitionVersions: a definition that does not say its scope gets that of the
// version that it is written in, once and for all.
func TestDefaultsOfDefinitionVersions(t *testing.T) {
	c := newTestCluster(t)
	for _, tc := range []struct{ written, scope, kind string }{{"v1", "LegacyCluster", "Old"}, {"v2", "Namespaced", "New"}} {
		name := c.name(strings.ToLower(tc.kind) + "s")
		c.Apply(t, definitionText(tc.written, tc.kind, ""))
		c.Await(t, definition, "", name, all(isEstablished, fieldIs(tc.scope, "spec", "scope")))
		c.Await(t, newer, "", name, all(isEstablished, fieldIs(tc.scope, "spec", "scope"), fieldIs("Background", "spec", "defaultCompositeDeletePolicy")))

		t.Log(tc.kind, "applied again as the other version it stays what it was")
		other := map[string]string{"v1": "v2", "v2": "v1"}[tc.written]
		c.Apply(t, strings.Replace(definitionText(other, tc.kind, ""), "size:", "length:", 1))
		o := c.Await(t, definition, "", name, all(isEstablished, fieldIs(tc.scope, "spec", "scope")))
		if o.GetGeneration() < 2 {
			t.Errorf("it has not changed: %s", testkit.JSON(o))
		}

		t.Log(tc.kind, "replaced by one without a scope it would be another, if it could")
		o = c.Get(t, definition, "", name)
		if other == "v2" {
			o = c.Get(t, newer, "", name)
		}
		unstructured.RemoveNestedField(o.Object, "spec", "scope")
		if _, err := c.Resource(t, o.GroupVersionKind(), "").Update(t.Context(), o, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "Value is immutable") {
			t.Errorf("want a refusal, got %v", err)
		}
	}
}

func TestADefinitionChanges(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, definitionText("v2", "App", ""))
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	c.Apply(t, "\napiVersion: $GROUP/v1\nkind: App\nmetadata: {name: a, namespace: $NS}\nspec: {size: small}\n")
	c.Await(t, c.kind("App"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))

	t.Log("its schema does: the API server serves the new one, and what serves the kind is reported")
	before := c.port.await(t, c.kind("App"), snapshotHas(0, 0))
	c.Apply(t, strings.Replace(definitionText("v2", "App", ""), "size: {type: string}", "size: {type: string}, more: {type: string}", 1))
	c.port.await(t, c.kind("App"), func(s *servedKind) error {
		if s != before {
			return errors.New("is another")
		}
		if len(s.used) < 2 || !strings.Contains(string(s.used[len(s.used)-1].Definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Raw), "more") {
			return fmt.Errorf("was given %d", len(s.used))
		}
		return nil
	})
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	for _, o := range testkit.Parse(t, c.Expand("\napiVersion: $GROUP/v1\nkind: App\nmetadata: {name: b, namespace: $NS}\nspec: {more: text}\n")) {
		// The API server does not say from when on it applies a new schema.
		testkit.Poll(t, "the API server serves the new schema", func() bool {
			_, err := c.TryApply(t, o)
			return err == nil
		})
	}
	if err := fieldIs("text", "spec", "more")(c.Get(t, c.kind("App"), c.NS, "b")); err != nil {
		t.Error(err)
	}

	t.Log("its compositions are for another version: it is worked in that one")
	two := strings.Replace(definitionText("v2", "App", "  - name: v2\n    served: true\n    referenceable: true\n    schema: {openAPIV3Schema: {type: object}}\n"), "referenceable: true", "referenceable: false", 1)
	c.Apply(t, two)
	c.Await(t, definition, "", c.name("apps"), all(isEstablished, fieldIs(c.Group+"/v2", "status", "controllers", "compositeResourceType", "apiVersion")))
	c.Apply(t, "\napiVersion: $GROUP/v1\nkind: App\nmetadata: {name: c, namespace: $NS}\nspec: {}\n")
	c.Await(t, c.kind("App"), c.NS, "c", all(finalizersAre("composite.apiextensions.crossplane.io")))

	t.Log("the former version can go, once the objects that are stored in it are rewritten")
	c.Apply(t, strings.NewReplacer("name: v1\n", "name: v2\n").Replace(definitionText("v2", "App", "")))
	c.Await(t, crdKind, "", c.name("apps"), func(o *unstructured.Unstructured) error {
		if versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions"); len(versions) != 1 {
			return fmt.Errorf("it has %d versions", len(versions))
		}
		return nil
	})
	c.Await(t, definition, "", c.name("apps"), isEstablished)
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	c := newTestCluster(t)
	broken := strings.NewReplacer("served: true", "served: true\n    deprecationWarning: it is old", "size: {type: string}", "size: {type: strin}").Replace(definitionText("v2", "App", ""))
	c.Apply(t, broken)
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "InvalidDefinition", "spec.versions[0].deprecationWarning", `spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.type`, `did you mean "string"?`)))
	if c.Get(t, crdKind, "", c.name("apps")) != nil {
		t.Error("there is a kind")
	}
	t.Log("mended it is served; broken again it stays so")
	c.Apply(t, definitionText("v2", "App", ""))
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	c.Apply(t, broken)
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "InvalidDefinition", "the last valid definition is still served"), fieldIs("App", "status", "controllers", "compositeResourceType", "kind")))
	c.Apply(t, "\napiVersion: $GROUP/v1\nkind: App\nmetadata: {name: a, namespace: $NS}\nspec: {}\n")
	c.Await(t, c.kind("App"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))

	t.Log("and can be deleted with what there is of it")
	c.Delete(t, definition, "", c.name("apps"))
	c.AwaitGone(t, definition, "", c.name("apps"))
	c.AwaitGone(t, crdKind, "", c.name("apps"))
}

func TestUnsupportedFeaturesOfAKindAreReported(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, strings.Replace(definitionText("v2", "App", ""), "size: {type: string}", "crossplane: {type: string}", 1))
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "True", "WatchingCompositeResource", "crossplane", "is replaced by Crossplane's schema")))
}

// foreignCRD is a kind that is not from a definition.
const foreignCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.$GROUP, annotations: {api-approved.kubernetes.io: unapproved}%s}
spec:
  group: $GROUP
  scope: Namespaced
  names: {kind: App, plural: apps%s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

func TestClaimsAreToldThatTheirCompositesWouldBeOfAForeignKind(t *testing.T) {
	c := newTestCluster(t)
	foreign := func(want bool) func(*servedKind) error {
		return func(s *servedKind) error {
			if len(s.used) == 0 || s.used[len(s.used)-1].ForeignComposites != want {
				return fmt.Errorf("the last snapshot has not ForeignComposites %t", want)
			}
			return nil
		}
	}
	c.Apply(t, fmt.Sprintf(foreignCRD, "", ""))
	c.Apply(t, definitionText("v1", "App", claimable))
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "KindNotOwned"), isOffered))
	c.port.await(t, c.kind("Claim"), foreign(true))
	c.DeleteCRD(t, c.name("apps"))
	c.Await(t, definition, "", c.name("apps"), all(isEstablished))
	c.port.await(t, c.kind("Claim"), foreign(false))
}

func TestAForeignKindIsLeftAlone(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owner, namespace: $NS}\n")
	for name, tc := range map[string]struct{ metadata, names, says string }{
		"nobody's":     {"", "", "CustomResourceDefinition " + c.name("apps") + " exists already and is not from a definition; it is not changed"},
		"controlled":   {", ownerReferences: [{apiVersion: v1, kind: Namespace, name: " + c.NS + ", uid: " + string(c.Get(t, namespace, "", c.NS).GetUID()) + ", controller: true}]", "", "is controlled by Namespace " + c.NS},
		"with a claim": {", ownerReferences: [{apiVersion: v1, kind: Namespace, name: " + c.NS + ", uid: " + string(c.Get(t, namespace, "", c.NS).GetUID()) + ", controller: true}]", ", categories: [claim]", "is controlled by Namespace " + c.NS},
	} {
		t.Log(name)
		c.Apply(t, fmt.Sprintf(foreignCRD, tc.metadata, tc.names))
		c.Apply(t, definitionText("v2", "App", ""))
		c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "KindNotOwned", tc.says)))
		if kind := c.Get(t, crdKind, "", c.name("apps")); kind.GetAnnotations()["espalier.dev/applied"] != "" {
			t.Error("it was written to")
		}
		t.Log("the definition can go, and leaves it")
		c.Delete(t, definition, "", c.name("apps"))
		c.AwaitGone(t, definition, "", c.name("apps"))
		if c.Get(t, crdKind, "", c.name("apps")).GetDeletionTimestamp() != nil {
			t.Error("it is deleted")
		}
		c.Apply(t, definitionText("v2", "App", ""))
		c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "KindNotOwned")))
		t.Log("once the foreign kind is deleted, the definition creates it")
		foreign := c.Get(t, crdKind, "", c.name("apps")).GetUID()
		c.DeleteCRD(t, c.name("apps"))
		c.Await(t, crdKind, "", c.name("apps"), func(o *unstructured.Unstructured) error {
			if o != nil && o.GetUID() == foreign {
				return errors.New("the API server has not deleted it yet")
			}
			return nil
		})
		c.Await(t, definition, "", c.name("apps"), isEstablished)
		c.Delete(t, definition, "", c.name("apps"))
		c.AwaitGone(t, definition, "", c.name("apps"))
	}
}

var namespace = suite.Secret.GroupVersion().WithKind("Namespace")

// TestAnOrphanedKindIsAdoptedByANewDefinition creates a definition of a kind that a former
// definition has orphaned at its deletion.
func TestAnOrphanedKindIsAdoptedByANewDefinition(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, fmt.Sprintf(foreignCRD, "", ", categories: [composite]"))
	c.Apply(t, "\napiVersion: $GROUP/v1\nkind: App\nmetadata: {name: a, namespace: $NS}\nspec: {size: small}\n")
	c.Apply(t, definitionText("v2", "App", ""))
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	c.Await(t, c.kind("App"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
}

func TestAnotherDefinitionsKindIsLeftAlone(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, definitionText("v1", "XApp", claimable))
	c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))
	c.Apply(t, definitionText("v1", "XOther", claimable))
	c.Await(t, definition, "", c.name("xothers"), all(isEstablished, conditionIs("Offered", "False", "KindNotOwned", "is controlled by CompositeResourceDefinition "+c.name("xapps"))))
	c.Apply(t, "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-graph}\nspec:\n  schema: {apiVersion: v1, kind: Graph, group: $GROUP}\n")
	c.AwaitReady(t, suite.RGD, "", c.Name("graph"))
	c.Apply(t, definitionText("v2", "Graph", ""))
	c.Await(t, definition, "", c.name("graphs"), all(conditionIs("Established", "False", "KindNotOwned", "belongs to ResourceGraphDefinition "+c.Name("graph"))))

	t.Log("the first definition is deleted, and the second serves the claims")
	c.Delete(t, definition, "", c.name("xapps"))
	c.AwaitGone(t, definition, "", c.name("xapps"))
	c.Await(t, definition, "", c.name("xothers"), all(isEstablished, isOffered))
}

// TestDriftOfAKindIsCorrected changes and deletes the CustomResourceDefinition of a definition.
func TestDriftOfAKindIsCorrected(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, definitionText("v2", "App", ""))
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	update(t, c, crdKind, "", c.name("apps"), func(o *unstructured.Unstructured) {
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		version, _ := versions[0].(map[string]any)
		if err := unstructured.SetNestedField(version, "integer", "schema", "openAPIV3Schema", "properties", "spec", "properties", "size", "type"); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedSlice(o.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
	})
	c.Await(t, crdKind, "", c.name("apps"), all(func(o *unstructured.Unstructured) error {
		if !strings.Contains(testkit.JSON(o), `"size":{"type":"string"}`) {
			return errors.New("has drifted")
		}
		return nil
	}))
	t.Log("it is recreated after another client deletes it")
	c.DeleteCRD(t, c.name("apps"))
	first := c.Get(t, crdKind, "", c.name("apps"))
	c.Await(t, crdKind, "", c.name("apps"), all(func(o *unstructured.Unstructured) error {
		if first != nil && o.GetUID() == first.GetUID() {
			return errors.New("is the same")
		}
		return nil
	}))
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	c.Apply(t, "\napiVersion: $GROUP/v1\nkind: App\nmetadata: {name: a, namespace: $NS}\nspec: {}\n")
	c.Await(t, c.kind("App"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
}
