package definitions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// app is an object of a test's kind; one that is held has a finalizer.
func app(kind, namespace, name string, held bool) string {
	metadata := "name: " + name
	if namespace != "" {
		metadata += ", namespace: " + namespace
	}
	if held {
		metadata += ", annotations: {" + blockAnnotation + ": 'true'}"
	}
	return "\n---\napiVersion: $GROUP/v1\nkind: " + kind + "\nmetadata: {" + metadata + "}\nspec: {}\n"
}

// createApp creates a definition of the kind App and a composite a, and waits until both are
// reconciled. Held blocks the deletion of the composite.
func (c testCluster) createApp(t *testing.T, text string, held bool) {
	t.Helper()
	c.Apply(t, text)
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	c.Apply(t, app("App", c.NS, "a", held))
	c.Await(t, c.kind("App"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
}

func removeFinalizer(t *testing.T, c testCluster, gvk schema.GroupVersionKind, namespace, name string) {
	t.Helper()
	update(t, c, gvk, namespace, name, func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
}

// TestADefinitionIsDeletedAfterItsComposites deletes a definition with composites in two
// namespaces. The definition reports how many are left, which ones, and their blockers.
func TestADefinitionIsDeletedAfterItsComposites(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, definitionText("v2", "App", ""))
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	other := testkit.Namespace(t, c.Config)
	kind := c.kind("App")
	for i := range 12 {
		ns := []string{c.NS, other}[i%2]
		c.Apply(t, app("App", ns, fmt.Sprintf("free-%d", i), false))
	}
	c.Apply(t, app("App", c.NS, "held", true)+app("App", other, "told", true))
	for _, at := range []struct{ ns, name string }{{c.NS, "held"}, {other, "told"}, {c.NS, "free-10"}, {other, "free-11"}} {
		c.Await(t, kind, at.ns, at.name, all(finalizersAre("composite.apiextensions.crossplane.io")))
	}
	update(t, c, kind, c.NS, "held", func(o *unstructured.Unstructured) {
		o.SetFinalizers(append(o.GetFinalizers(), "example.com/theirs"))
	})
	update(t, c, kind, other, "told", func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"a": "b"})
	})
	c.Delete(t, definition, "", c.name("apps"))
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "TerminatingCompositeResource",
		"2 of kind App remain: ", c.NS+"/held", other+"/told", c.NS+"/held has finalizer example.com/theirs"),
		fieldIs("App", "status", "controllers", "compositeResourceType", "kind")))
	if list := c.List(t, kind, metav1.NamespaceAll, ""); len(list) != 2 {
		t.Errorf("want two, got %v", list)
	}

	t.Log("they go, one after the other")
	update(t, c, kind, c.NS, "held", func(o *unstructured.Unstructured) {
		o.SetAnnotations(nil)
		o.SetFinalizers(nil)
	})
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "TerminatingCompositeResource", "1 of kind App remains: "+other+"/told")))
	removeFinalizer(t, c, kind, other, "told")
	c.AwaitGone(t, definition, "", c.name("apps"))
	if c.Get(t, crdKind, "", c.name("apps")) != nil {
		t.Error("the kind is left over")
	}
}

// TestTheBlockerOfACompositeIsReported has a composite report its blocker in its status.
func TestTheBlockerOfACompositeIsReported(t *testing.T) {
	c := newTestCluster(t)
	c.createApp(t, strings.Replace(definitionText("v2", "App", ""), "properties: {spec:", "properties: {status: {type: object, properties: {deletion: {type: object, x-kubernetes-preserve-unknown-fields: true}}}, spec:", 1), true)
	c.Delete(t, definition, "", c.name("apps"))
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "TerminatingCompositeResource", "1 of kind App remains: "+c.NS+"/a")))
	c.SetStatus(t, c.kind("App"), c.NS, "a", map[string]any{"deletion": map[string]any{
		"startedAt": "2026-08-01T10:00:00Z", "total": 1, "removed": 0, "remaining": 1, "percent": 0, "blocked": 1,
		"blockers": []any{map[string]any{
			"object": map[string]any{"apiVersion": "v1", "kind": "Bucket", "namespace": "prod", "name": "logs"},
			"reason": "Finalizer", "message": "it isn't empty", "since": "2026-08-01T10:00:00Z",
		}},
	}})
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "TerminatingCompositeResource", c.NS+"/a waits for Bucket prod/logs (Finalizer: it isn't empty)")))
	removeFinalizer(t, c, c.kind("App"), c.NS, "a")
	c.AwaitGone(t, definition, "", c.name("apps"))
}

func TestClaimsAreDeletedBeforeComposites(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, definitionText("v1", "XApp", claimable))
	c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))
	c.Apply(t, app("Claim", c.NS, "a", true)+app("XApp", "", "of-a", false)+app("XApp", "", "b", true))
	c.Await(t, c.kind("Claim"), c.NS, "a", all(finalizersAre("finalizer.apiextensions.crossplane.io")))
	for _, name := range []string{"of-a", "b"} {
		c.Await(t, c.kind("XApp"), "", name, all(finalizersAre("composite.apiextensions.crossplane.io")))
	}
	c.Delete(t, definition, "", c.name("xapps"))
	c.Await(t, definition, "", c.name("xapps"), all(
		conditionIs("Offered", "False", "TerminatingCompositeResourceClaim", "1 of kind Claim remains: "+c.NS+"/a"),
		conditionIs("Established", "False", "TerminatingCompositeResource", "composites are deleted after their claims")))
	if o := c.Get(t, c.kind("XApp"), "", "of-a"); o == nil || o.GetDeletionTimestamp() != nil {
		t.Error("a composite is deleted while there are claims")
	}

	t.Log("then the composites do")
	removeFinalizer(t, c, c.kind("Claim"), c.NS, "a")
	c.AwaitGone(t, crdKind, "", c.name("claims"))
	c.AwaitGone(t, c.kind("XApp"), "", "of-a")
	c.Await(t, definition, "", c.name("xapps"), all(finalizersAre("defined.apiextensions.crossplane.io"),
		conditionIs("Offered", "False", "TerminatingCompositeResourceClaim", "no claim remains"),
		conditionIs("Established", "False", "TerminatingCompositeResource", "1 of kind XApp remains: b")))
	removeFinalizer(t, c, c.kind("XApp"), "", "b")
	c.AwaitGone(t, definition, "", c.name("xapps"))
	c.AwaitGone(t, crdKind, "", c.name("xapps"))
}

// TestARefusedDeletionIsReported, and tried again.
func TestARefusedDeletionIsReported(t *testing.T) {
	c := newTestCluster(t)
	c.createApp(t, definitionText("v2", "App", ""), false)
	c.Apply(t, suite.AdmissionPolicy("stays", `
  matchConstraints:
    resourceRules: [{apiGroups: [$GROUP], apiVersions: ["*"], operations: [DELETE], resources: ["*"]}]
  validations: [{expression: "false", message: it is in use}]
`))
	testkit.Poll(t, "the policy denies deletions", func() bool {
		dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		return c.Resource(t, c.kind("App"), c.NS).Delete(t.Context(), "a", dry) != nil
	})
	c.Delete(t, definition, "", c.name("apps"))
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "TerminatingCompositeResource", "1 of kind App remains: "+c.NS+"/a", c.NS+"/a cannot be deleted: ", "it is in use")))
	c.DeleteAdmissionPolicy(t, "stays")
	c.AwaitGone(t, definition, "", c.name("apps"))
}

func TestADefinitionIsRecreatedAtOnce(t *testing.T) {
	c := newTestCluster(t)
	for round := range 3 {
		c.Apply(t, definitionText("v1", "XApp", claimable))
		c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))
		c.Apply(t, app("Claim", c.NS, "a", false)+app("XApp", "", "a", false))
		c.Await(t, c.kind("Claim"), c.NS, "a", all(finalizersAre("finalizer.apiextensions.crossplane.io")))
		c.Await(t, c.kind("XApp"), "", "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
		c.Delete(t, definition, "", c.name("xapps"))
		c.AwaitGone(t, definition, "", c.name("xapps"))
		t.Log("round", round)
	}
	t.Log("as another: its scope may change then")
	c.Apply(t, definitionText("v2", "XApp", ""))
	d := c.Await(t, definition, "", c.name("xapps"), isEstablished)
	c.Cluster = testkit.NewCluster(t, c.Config) // the former took the kind for cluster-scoped
	c.Apply(t, app("XApp", c.NS, "a", false))
	c.Await(t, c.kind("XApp"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
	if s := c.port.await(t, c.kind("XApp"), snapshotHas(0, 0)); s.of.UID != d.GetUID() {
		t.Error("it is served for a former definition")
	}
}

// TestADefinitionWithoutItsKindIsDeleted: nothing keeps it.
func TestADefinitionWithoutItsKindIsDeleted(t *testing.T) {
	c := newTestCluster(t)
	t.Log("a definition without a CustomResourceDefinition")
	c.Apply(t, strings.Replace(definitionText("v2", "App", ""), "type: string", "type: strin", 1))
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "InvalidDefinition")))
	c.Delete(t, definition, "", c.name("apps"))
	c.AwaitGone(t, definition, "", c.name("apps"))

	t.Log("a definition that has lost its CustomResourceDefinition to another owner")
	c.createApp(t, definitionText("v2", "App", ""), true)
	update(t, c, crdKind, "", c.name("apps"), func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: c.NS, UID: c.Get(t, namespace, "", c.NS).GetUID(), Controller: new(true)}})
	})
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "KindNotOwned")))
	c.Delete(t, definition, "", c.name("apps"))
	c.AwaitGone(t, definition, "", c.name("apps"))
	if o := c.Get(t, c.kind("App"), c.NS, "a"); o == nil || o.GetDeletionTimestamp() != nil {
		t.Error("what is another owner's is deleted")
	}
	removeFinalizer(t, c, c.kind("App"), c.NS, "a")
	update(t, c, c.kind("App"), c.NS, "a", func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })

	t.Log("a definition with a CustomResourceDefinition that is being deleted")
	c.DeleteCRD(t, c.name("apps"))
	c.AwaitGone(t, crdKind, "", c.name("apps"))
	c.createApp(t, definitionText("v2", "App", ""), true)
	c.DeleteCRD(t, c.name("apps"))
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "Unknown", "Terminating")))
	c.Delete(t, definition, "", c.name("apps"))
	c.Await(t, definition, "", c.name("apps"), all(conditionIs("Established", "False", "TerminatingCompositeResource", "1 of kind App remains")))
	removeFinalizer(t, c, c.kind("App"), c.NS, "a")
	c.AwaitGone(t, definition, "", c.name("apps"))
	c.port.await(t, c.kind("App"), func(s *servedKind) error {
		if !s.stopped {
			return errors.New("nobody was told that its controller has stopped")
		}
		return nil
	})
}

// TestADeletedKindOfADefinitionIsRecreated with what serves it.
func TestADeletedKindOfADefinitionIsRecreated(t *testing.T) {
	c := newTestCluster(t)
	c.createApp(t, definitionText("v2", "App", ""), false)
	first := c.Get(t, crdKind, "", c.name("apps")).GetUID()
	c.DeleteCRD(t, c.name("apps"))
	c.Await(t, crdKind, "", c.name("apps"), all(func(o *unstructured.Unstructured) error {
		if o.GetUID() == first {
			return errors.New("is the same")
		}
		return nil
	}))
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	c.Apply(t, app("App", c.NS, "a", false))
	c.Await(t, c.kind("App"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
}
