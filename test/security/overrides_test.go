package security

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// vault is a definition with data that its author preserves, and a cache. Its parameters are what
// instances may override, and the edition of the data.
const vault = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-vault}
spec:
  serviceAccount: {namespace: $NS, name: builder}
  instanceOverrides: {%s}
  schema: {apiVersion: v1alpha1, kind: Vault, group: $GROUP}
  resources:
    - id: data
      deletionPolicy: Retain
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-data"}, data: {edition: %s}}
    - id: cache
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-cache"}}
`

// createVault creates the definition and the Vault x, and returns its tenant, who may write
// Vaults and nothing that they consist of.
func createVault(t *testing.T, overrides string) (suite.Suite, *testkit.Cluster) {
	t.Helper()
	s := suite.New(t)
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: [$GROUP], resources: [vaults], verbs: [create, delete, get, patch]}]`)
	s.Apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: builder, namespace: $NS}\n---"+fmt.Sprintf(accountRules, "builder"))
	s.Apply(t, fmt.Sprintf(vault, overrides, "one"))
	s.AwaitDefinitions(t, "vault")
	createInstance(t, s, tenant, "Vault", "x")
	return s, tenant
}

func createInstance(t *testing.T, s suite.Suite, as *testkit.Cluster, kind, name string) {
	t.Helper()
	if err := apply(t, s, as, "apiVersion: $GROUP/v1alpha1\nkind: "+kind+"\nmetadata: {name: "+name+", namespace: $NS}\nspec: {}\n"); err != nil {
		t.Fatal(err)
	}
	s.AwaitReady(t, s.Kind(kind), s.NS, name)
}

// annotateAs has a user annotate an instance; annotations are JSON.
func annotateAs(t *testing.T, s suite.Suite, as *testkit.Cluster, kind, name, annotations string) {
	t.Helper()
	as.Patch(t, s.Kind(kind), s.NS, name, `{"metadata":{"annotations":{`+annotations+`}}}`)
}

// ignores checks that an instance reports annotations that are ignored.
func ignores(words ...string) func(*unstructured.Unstructured) error {
	return suite.HasCondition("OverridesIgnored", "True", "OverrideNotAllowed", words...)
}

// TestATenantDeletesNothingThatTheAuthorPreserves has a tenant set a deletion policy, with the
// default, and where the author allows all.
func TestATenantDeletesNothingThatTheAuthorPreserves(t *testing.T) {
	s, tenant := createVault(t, "")
	annotateAs(t, s, tenant, "Vault", "x", `"espalier.dev/deletion-policy":"Delete"`)
	o := s.Await(t, s.Kind("Vault"), s.NS, "x", ignores("espalier.dev/deletion-policy is ignored for data (Delete instead of Retain)",
		"ResourceGraphDefinition "+s.Name("vault"), "spec.instanceOverrides.deletionPolicy: All"))
	s.AwaitEventOn(t, o, "OverrideNotAllowed", "espalier.dev/deletion-policy")
	if err := testkit.IsReady(o); err != nil {
		t.Errorf("an ignored annotation blocks the instance: %v", err)
	}
	tenant.Delete(t, s.Kind("Vault"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Vault"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-cache")
	expectPreserved(t, s, "x-data")

	t.Log("a tenant may preserve more")
	createInstance(t, s, tenant, "Vault", "second")
	annotateAs(t, s, tenant, "Vault", "second", `"espalier.dev/deletion-policy":"cache=Retain"`)
	tenant.Delete(t, s.Kind("Vault"), s.NS, "second")
	s.AwaitGone(t, s.Kind("Vault"), s.NS, "second")
	expectPreserved(t, s, "second-data")
	expectPreserved(t, s, "second-cache")

	t.Log("unless the author denies that, and delete more if the author allows it")
	createInstance(t, s, tenant, "Vault", "third")
	s.Apply(t, fmt.Sprintf(vault, "deletionPolicy: None", "one"))
	annotateAs(t, s, tenant, "Vault", "third", `"espalier.dev/deletion-policy":"cache=Retain"`)
	s.Await(t, s.Kind("Vault"), s.NS, "third", ignores("espalier.dev/deletion-policy is ignored: ", "spec.instanceOverrides.deletionPolicy: Preserve or All"))
	s.Apply(t, fmt.Sprintf(vault, "deletionPolicy: All", "one"))
	annotateAs(t, s, tenant, "Vault", "third", `"espalier.dev/deletion-policy":"Delete"`)
	s.Await(t, s.Kind("Vault"), s.NS, "third", hasRecorded("Retain=data,overrides=deletionPolicy:All"))
	tenant.Delete(t, s.Kind("Vault"), s.NS, "third")
	s.AwaitGone(t, s.Kind("Vault"), s.NS, "third")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "third-data")
}

func expectPreserved(t *testing.T, s suite.Suite, name string) {
	t.Helper()
	if o := s.Get(t, suite.ConfigMap, s.NS, name); o == nil || o.GetDeletionTimestamp() != nil {
		t.Errorf("%s is deleted", name)
	}
}

// hasRecorded checks the settings that are recorded on an instance.
func hasRecorded(want string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		if got := o.GetAnnotations()["espalier.dev/deletion-defaults"]; got != want {
			return fmt.Errorf("recorded is %q, not %q", got, want)
		}
		return nil
	}
}

// TestATenantForgesRecordedSettings has a tenant change what the engine records on an instance,
// before it is deleted and while it is.
func TestATenantForgesRecordedSettings(t *testing.T) {
	s, tenant := createVault(t, "forceDelete: Deny")
	const recorded, forged = "Retain=data,overrides=forceDelete:Deny", `"espalier.dev/deletion-defaults":"overrides=deletionPolicy:All","espalier.dev/deletion-policy":"Delete"`
	s.Await(t, s.Kind("Vault"), s.NS, "x", hasRecorded(recorded))
	annotateAs(t, s, tenant, "Vault", "x", forged)
	s.Await(t, s.Kind("Vault"), s.NS, "x", suite.All(hasRecorded(recorded), ignores("espalier.dev/deletion-policy is ignored for data")))

	s.Patch(t, suite.ConfigMap, s.NS, "x-cache", `{"metadata":{"finalizers":["example.com/guard"]}}`)
	tenant.Delete(t, s.Kind("Vault"), s.NS, "x")
	s.Await(t, s.Kind("Vault"), s.NS, "x", isBlockedBy("x-cache"))
	annotateAs(t, s, tenant, "Vault", "x", forged+`,"espalier.dev/force-delete":"all","espalier.dev/force-after":"1ms"`)
	s.Await(t, s.Kind("Vault"), s.NS, "x", suite.All(hasRecorded("overrides=deletionPolicy:All"), isBlockedBy("x-cache"),
		ignores("espalier.dev/deletion-policy is ignored for data", "espalier.dev/force-after is ignored", "espalier.dev/force-delete is ignored", "spec.instanceOverrides.forceDelete: Allow")))
	s.Patch(t, suite.ConfigMap, s.NS, "x-cache", `{"metadata":{"finalizers":null}}`)
	s.AwaitGone(t, s.Kind("Vault"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-cache")
	expectPreserved(t, s, "x-data")
}

// isBlockedBy checks that the deletion of an instance reports an object as its blocker, and none
// that was left behind.
func isBlockedBy(name string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		d := report.ReadDeletion(o)
		if d == nil || len(d.Blockers) == 0 || d.Blockers[0].Object.Name != name || d.Left > 0 {
			return fmt.Errorf("the deletion is %+v", d)
		}
		return nil
	}
}

// TestATenantSelectsNoRevision has a tenant go back to a revision that the author has replaced.
func TestATenantSelectsNoRevision(t *testing.T) {
	s, tenant := createVault(t, "")
	s.Apply(t, fmt.Sprintf(vault, "", "two"))
	s.Await(t, suite.ConfigMap, s.NS, "x-data", suite.HasField("two", "data", "edition"))
	annotateAs(t, s, tenant, "Vault", "x", `"espalier.dev/revision":"1"`)
	s.Await(t, s.Kind("Vault"), s.NS, "x", suite.All(testkit.IsReady, ignores("espalier.dev/revision is ignored", "spec.instanceOverrides.revision: Allow")))
	s.Await(t, suite.ConfigMap, s.NS, "x-data", suite.HasField("two", "data", "edition"))

	t.Log("also if the revision was made while that was allowed")
	s.Apply(t, fmt.Sprintf(vault, "revision: Allow", "two"))
	s.Await(t, suite.ConfigMap, s.NS, "x-data", suite.HasField("one", "data", "edition"))
	s.Apply(t, fmt.Sprintf(vault, "revision: Deny", "two"))
	s.Await(t, suite.ConfigMap, s.NS, "x-data", suite.HasField("two", "data", "edition"))
	s.Await(t, s.Kind("Vault"), s.NS, "x", suite.All(testkit.IsReady, ignores("espalier.dev/revision is ignored")))
}

// TestATenantOfACompositeOverridesWhatItsDefinitionAllows has a tenant set deletion policies on
// composites, and the author change what these may override.
func TestATenantOfACompositeOverridesWhatItsDefinitionAllows(t *testing.T) {
	s := suite.New(t)
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: [$GROUP], resources: [stores], verbs: [create, delete, get, patch]}]`)
	s.Apply(t, suite.XRD("v2", "Store", "", "", "scope: Namespaced")+"---"+suite.Composition("store", "Store", suite.PatchAndTransform(`
      - name: data
        base: {apiVersion: v1, kind: ConfigMap, metadata: {annotations: {espalier.dev/on-delete: Retain}}}
        patches: [{fromFieldPath: metadata.name, toFieldPath: metadata.name, transforms: [{type: string, string: {type: Format, fmt: "%s-data"}}]}]
        readinessChecks: [{type: None}]
      - name: cache
        base: {apiVersion: v1, kind: ConfigMap}
        patches: [{fromFieldPath: metadata.name, toFieldPath: metadata.name, transforms: [{type: string, string: {type: Format, fmt: "%s-cache"}}]}]
        readinessChecks: [{type: None}]
`)))
	definitions := schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}
	s.Await(t, definitions, "", s.Expand("stores.$GROUP"), suite.HasCondition("Established", "True", "WatchingCompositeResource"))
	createInstance(t, s, tenant, "Store", "x")
	annotateAs(t, s, tenant, "Store", "x", `"espalier.dev/deletion-policy":"Delete"`)
	s.Await(t, s.Kind("Store"), s.NS, "x", ignores("espalier.dev/deletion-policy is ignored for data (Delete instead of Retain)",
		"CompositeResourceDefinition "+s.Expand("stores.$GROUP"), "deletionPolicy=All in its annotation espalier.dev/instance-overrides"))
	tenant.Delete(t, s.Kind("Store"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Store"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-cache")
	expectPreserved(t, s, "x-data")

	createInstance(t, s, tenant, "Store", "second")
	s.Patch(t, definitions, "", s.Expand("stores.$GROUP"), `{"metadata":{"annotations":{"espalier.dev/instance-overrides":"deletionPolicy=None, forceDelete=Deny"}}}`)
	annotateAs(t, s, tenant, "Store", "second", `"espalier.dev/deletion-policy":"Retain"`)
	s.Await(t, s.Kind("Store"), s.NS, "second", suite.All(hasRecorded("overrides=deletionPolicy:None;forceDelete:Deny"), ignores("espalier.dev/deletion-policy is ignored: ")))
	tenant.Delete(t, s.Kind("Store"), s.NS, "second")
	s.AwaitGone(t, s.Kind("Store"), s.NS, "second")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "second-cache")
	expectPreserved(t, s, "second-data")
}
