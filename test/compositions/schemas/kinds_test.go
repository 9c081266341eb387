package schemas

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	v2 "github.com/espalier-dev/espalier/api/apiextensions/v2"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestEveryKindIsEstablished has the API server serve what the goldens of xrd say.
func TestEveryKindIsEstablished(t *testing.T) {
	w := newTestCluster(t)
	for _, a := range golden.Read(t, "../../../internal/composition/xrd/testdata/kinds/*.txtar") {
		t.Run(a.Name, func(t *testing.T) {
			text := strings.NewReplacer("acme.example.com", w.group, "database.example.org", w.group).Replace(a.Input["definition.yaml"])
			applied := w.Apply(t, text)
			w.serve(t, strings.TrimSuffix(applied[0].GetName(), "."+w.group))
		})
	}
}

func TestNamespacedComposites(t *testing.T) {
	w := newTestCluster(t)
	w.applyFile(t, "namespaced.yaml")
	d := w.serve(t, "databases")
	kind := d.CompositeKind()

	made := w.Apply(t, w.expand(`
apiVersion: example.org/v1alpha1
kind: Database
metadata:
  namespace: default
  name: orders
spec:
  size: small
  crossplane:
    compositionSelector:
      matchLabels:
        engine: postgres
`))[0]
	if got := at(t, made, "spec", "crossplane", "compositionUpdatePolicy"); got != "Automatic" {
		t.Errorf("the policy is %v", got)
	}
	fillAllFields(t, w, made, xrd.LayoutOf(d.ScopeOrDefault()))

	expectRefused(t, w, "large databases have backups", `{apiVersion: example.org/v1alpha1, kind: Database, metadata: {namespace: default, name: large}, spec: {size: large}}`)
	expectRefused(t, w, "may not be more than 63 bytes", `{apiVersion: example.org/v1alpha1, kind: Database, metadata: {namespace: default, name: `+strings.Repeat("a", 64)+`}, spec: {}}`)
	if list := w.List(t, kind, w.ns, ""); len(list) != 1 {
		t.Errorf("there are %v", list)
	}
}

func TestClaimsAndTheirComposites(t *testing.T) {
	w := newTestCluster(t)
	w.applyFile(t, "claimed.yaml")
	d := w.serve(t, "xpostgresqlinstances")
	if d.ScopeOrDefault() != v1.LegacyClusterScope {
		t.Errorf("the scope is %s", d.ScopeOrDefault())
	}
	applied := w.Apply(t, w.expand(`
apiVersion: example.org/v1alpha1
kind: PostgreSQLInstance
metadata:
  namespace: default
  name: my-db
spec:
  parameters:
    storageGB: 20
  compositionSelector:
    matchLabels:
      provider: aws
  writeConnectionSecretToRef:
    name: db-conn
---
apiVersion: example.org/v1alpha1
kind: XPostgreSQLInstance
metadata:
  name: my-db-7kx2v
spec:
  parameters:
    storageGB: 20
`))
	if got := at(t, applied[0], "spec", "compositeDeletePolicy"); got != "Background" {
		t.Errorf("the policy is %v", got)
	}
	fillAllFields(t, w, applied[0], xrd.ClaimLayout())
	fillAllFields(t, w, applied[1], xrd.LayoutOf(d.ScopeOrDefault()))
}

// fillAllFields sets all fields of the machinery, and expects the API server to keep them.
func fillAllFields(t *testing.T, w testCluster, o *unstructured.Unstructured, places xrd.Layout) {
	t.Helper()
	o.SetManagedFields(nil)
	i := xrd.NewInstance(o, places)
	i.SetCompositionName("small")
	i.SetCompositionSelector(map[string]string{"a": "b"})
	i.SetRevisionName("small-1")
	i.SetRevisionSelector(map[string]string{"channel": "stable"})
	i.SetUpdatePolicy(v1.UpdateManual)
	i.SetDeletePolicy(v1.DeleteForeground)
	i.SetResourceRefs([]xrd.ComposedRef{{APIVersion: "v1", Kind: "Secret", Namespace: "a", Name: "b", ResourceName: "c", DependsOn: []string{"d"}}})
	i.SetClaimRef(xrd.ObjectRef{APIVersion: "a/v1", Kind: "B", Namespace: "c", Name: "d"})
	i.SetCompositeRef(xrd.ObjectRef{APIVersion: "a/v1", Kind: "B", Name: "d"})
	i.SetConnectionSecretRef(xrd.SecretRef{Namespace: "a", Name: "b"})
	answer, err := w.TryApply(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o.Object["spec"], answer.Object["spec"]); diff != "" {
		t.Errorf("%s: spec (-set +kept):\n%s", o.GetKind(), diff)
	}

	i = xrd.NewInstance(answer, places)
	since := metav1.NewTime(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	i.SetConditions([]v1alpha1.Condition{{Type: v1.TypeReady, Status: metav1.ConditionFalse, LastTransitionTime: &since, Message: "db: 1/3", ObservedGeneration: 2}})
	i.AddClaimConditionTypes("Backup")
	i.SetLastPublished(since.Time)
	want := answer.DeepCopy()
	got, err := w.Resource(t, answer.GroupVersionKind(), answer.GetNamespace()).UpdateStatus(t.Context(), answer, metav1.UpdateOptions{FieldValidation: "Strict"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Object["status"], got.Object["status"]); diff != "" {
		t.Errorf("%s: status (-set +kept):\n%s", o.GetKind(), diff)
	}
}

func expectRefused(t *testing.T, w testCluster, because, text string) {
	t.Helper()
	for _, o := range testkit.Parse(t, w.expand(text)) {
		_, err := w.TryApply(t, o)
		if err == nil {
			t.Errorf("%s %s is accepted", o.GetKind(), o.GetName())
		} else if !strings.Contains(err.Error(), because) {
			t.Errorf("want %q, got %v", because, err)
		}
	}
}

func TestUsagesAreAccepted(t *testing.T) {
	w := newTestCluster(t)
	for _, o := range w.applyFile(t, "usages.yaml") {
		if at(t, o, "spec", "of") == nil {
			t.Errorf("%s %s lost what it is of", o.GetKind(), o.GetName())
		}
	}
	expectRefused(t, w, `either "spec.by" or "spec.reason" must be specified`, `{apiVersion: protection.crossplane.io/v1beta1, kind: ClusterUsage, metadata: {name: a}, spec: {of: {resourceRef: {name: b}}}}`)
	expectRefused(t, w, "either a resource reference or a resource selector should be set", `{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {namespace: default, name: a}, spec: {reason: because, of: {kind: A}}}`)
}

// TestVersionsOfDefinitions reads definitions in the version that they were not written
// in: nothing is lost.
func TestVersionsOfDefinitions(t *testing.T) {
	w := newTestCluster(t)
	newer := schema.GroupVersionKind{Group: v2.GroupVersion.Group, Version: v2.GroupVersion.Version, Kind: v1.DefinitionKind}
	for file, name := range map[string]string{"namespaced.yaml": "databases", "claimed.yaml": "xpostgresqlinstances"} {
		w.applyFile(t, file)
		one, two := w.Get(t, definitionKind, "", name+"."+w.group), w.Get(t, newer, "", name+"."+w.group)
		if diff := cmp.Diff(one.Object["spec"], two.Object["spec"]); diff != "" {
			t.Errorf("%s (-v1 +v2):\n%s", name, diff)
		}
		as1, err1 := xrd.Read(one)
		as2, err2 := xrd.Read(two)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		as1.ManagedFields, as2.ManagedFields = nil, nil
		if diff := cmp.Diff(as1, as2); diff != "" {
			t.Errorf("%s is read in two ways: %s", name, diff)
		}
	}
	// One that was written as v1 can still be edited as v2, which kubectl does.
	edited := w.Get(t, newer, "", "xpostgresqlinstances."+w.group)
	edited.SetLabels(map[string]string{"edited": "true"})
	if err := unstructured.SetNestedField(edited.Object, "Foreground", "spec", "defaultCompositeDeletePolicy"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Resource(t, newer, "").Update(t.Context(), edited, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestDefinitionsAreRefused(t *testing.T) {
	w := newTestCluster(t)
	of := func(version, more string) string {
		return `{apiVersion: apiextensions.crossplane.io/` + version + `, kind: CompositeResourceDefinition, metadata: {name: as.example.org},
			spec: {group: example.org, names: {kind: A, plural: as}, versions: [{name: v1, served: true, referenceable: true}], ` + more + `}}`
	}
	expectRefused(t, w, "Claims aren't supported", of("v2", "claimNames: {kind: B, plural: bs}"))
	expectRefused(t, w, "XR connection secrets aren't supported", of("v2", "connectionSecretKeys: [a]"))
	expectRefused(t, w, `supported values: "Namespaced", "Cluster"`, of("v2", "scope: LegacyCluster"))
	expectRefused(t, w, "Only LegacyCluster composite resources can offer claims", of("v1", "scope: Cluster, claimNames: {kind: B, plural: bs}"))
	expectRefused(t, w, "Plural name must be lowercase", of("v1", "claimNames: {kind: B, plural: Bs}"))
	expectRefused(t, w, "Webhook configuration is required", of("v1", "conversion: {strategy: Webhook}"))

	w.Apply(t, w.expand(of("v1", "conversion: {strategy: None}, enforcedCompositionRef: {name: a}")))
	expectRefused(t, w, "Value is immutable", of("v1", "enforcedCompositionRef: {name: b}"))
	expectRefused(t, w, "Value is immutable", of("v1", "scope: Cluster, enforcedCompositionRef: {name: a}"))
}

func TestCompositionsAreRefused(t *testing.T) {
	w := newTestCluster(t)
	of := func(spec string) string {
		return `{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: a.example.org}, spec: {compositeTypeRef: {apiVersion: example.org/v1, kind: A}, ` + spec + `}}`
	}
	expectRefused(t, w, "an array of pipeline steps is required", of("mode: Pipeline"))
	expectRefused(t, w, `supported values: "Pipeline"`, of("mode: Resources, pipeline: [{step: a, functionRef: {name: b}}]"))
	expectRefused(t, w, "duplicate entries", of("pipeline: [{step: a, functionRef: {name: b}}, {step: a, functionRef: {name: b}}]"))
	expectRefused(t, w, "the Secret source requires a secretRef", of("pipeline: [{step: a, functionRef: {name: b}, credentials: [{name: c, source: Secret}]}]"))
	expectRefused(t, w, "name and matchLabels are mutually exclusive", of("pipeline: [{step: a, functionRef: {name: b}, requirements: {requiredResources: [{requirementName: c, apiVersion: v1, kind: D, name: e, matchLabels: {f: g}}]}}]"))
}
