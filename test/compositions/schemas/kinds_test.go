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
	w := begin(t)
	for _, a := range golden.Read(t, "../../../internal/composition/xrd/testdata/kinds/*.txtar") {
		t.Run(a.Name, func(t *testing.T) {
			text := strings.NewReplacer("acme.example.com", w.group, "database.example.org", w.group).Replace(a.Input["definition.yaml"])
			applied := w.Apply(t, text)
			w.serve(t, strings.TrimSuffix(applied[0].GetName(), "."+w.group))
		})
	}
}

func TestNamespacedComposites(t *testing.T) {
	w := begin(t)
	w.put(t, "namespaced.yaml")
	d := w.serve(t, "databases")
	kind := d.CompositeKind()

	made := w.Apply(t, w.text(`
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
	everything(t, w, made, xrd.PlacesOf(d.ScopeOrDefault()))

	refused(t, w, "large databases have backups", `{apiVersion: example.org/v1alpha1, kind: Database, metadata: {namespace: default, name: large}, spec: {size: large}}`)
	refused(t, w, "may not be more than 63 bytes", `{apiVersion: example.org/v1alpha1, kind: Database, metadata: {namespace: default, name: `+strings.Repeat("a", 64)+`}, spec: {}}`)
	if list, err := w.Of(t, kind, w.ns).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("there are %v, %v", list, err)
	}
}

func TestClaimsAndTheirComposites(t *testing.T) {
	w := begin(t)
	w.put(t, "claimed.yaml")
	d := w.serve(t, "xpostgresqlinstances")
	if d.ScopeOrDefault() != v1.LegacyClusterScope {
		t.Errorf("the scope is %s", d.ScopeOrDefault())
	}
	applied := w.Apply(t, w.text(`
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
	everything(t, w, applied[0], xrd.ClaimPlaces())
	everything(t, w, applied[1], xrd.PlacesOf(d.ScopeOrDefault()))
}

// everything sets all that the machinery can, and wants the API server to keep it as it
// is.
func everything(t *testing.T, w world, o *unstructured.Unstructured, places xrd.Places) {
	t.Helper()
	o.SetManagedFields(nil)
	i := xrd.At(o, places)
	i.SetComposition("small")
	i.SetCompositionSelector(map[string]string{"a": "b"})
	i.SetRevision("small-1")
	i.SetRevisionSelector(map[string]string{"channel": "stable"})
	i.SetUpdatePolicy(v1.UpdateManual)
	i.SetDeletePolicy(v1.DeleteForeground)
	i.SetComposed([]xrd.ComposedRef{{APIVersion: "v1", Kind: "Secret", Namespace: "a", Name: "b", ResourceName: "c", DependsOn: []string{"d"}}})
	i.SetClaim(xrd.ObjectRef{APIVersion: "a/v1", Kind: "B", Namespace: "c", Name: "d"})
	i.SetComposite(xrd.ObjectRef{APIVersion: "a/v1", Kind: "B", Name: "d"})
	i.SetConnectionSecret(xrd.SecretRef{Namespace: "a", Name: "b"})
	answer, err := w.TryApply(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o.Object["spec"], answer.Object["spec"]); diff != "" {
		t.Errorf("%s: spec (-set +kept):\n%s", o.GetKind(), diff)
	}

	i = xrd.At(answer, places)
	since := metav1.NewTime(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	i.SetConditions([]v1alpha1.Condition{{Type: v1.TypeReady, Status: metav1.ConditionFalse, LastTransitionTime: &since, Message: "db: 1/3", ObservedGeneration: 2}})
	i.AddClaimConditionTypes("Backup")
	i.SetLastPublished(since.Time)
	want := answer.DeepCopy()
	got, err := w.Of(t, answer.GroupVersionKind(), answer.GetNamespace()).UpdateStatus(t.Context(), answer, metav1.UpdateOptions{FieldValidation: "Strict"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Object["status"], got.Object["status"]); diff != "" {
		t.Errorf("%s: status (-set +kept):\n%s", o.GetKind(), diff)
	}
}

func refused(t *testing.T, w world, because, text string) {
	t.Helper()
	for _, o := range testkit.Parse(t, w.text(text)) {
		_, err := w.TryApply(t, o)
		if err == nil {
			t.Errorf("%s %s is accepted", o.GetKind(), o.GetName())
		} else if !strings.Contains(err.Error(), because) {
			t.Errorf("want %q, got %v", because, err)
		}
	}
}

func TestUsagesAreAccepted(t *testing.T) {
	w := begin(t)
	for _, o := range w.put(t, "usages.yaml") {
		if at(t, o, "spec", "of") == nil {
			t.Errorf("%s %s lost what it is of", o.GetKind(), o.GetName())
		}
	}
	refused(t, w, `either "spec.by" or "spec.reason" must be specified`, `{apiVersion: protection.crossplane.io/v1beta1, kind: ClusterUsage, metadata: {name: a}, spec: {of: {resourceRef: {name: b}}}}`)
	refused(t, w, "either a resource reference or a resource selector should be set", `{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {namespace: default, name: a}, spec: {reason: because, of: {kind: A}}}`)
}

// TestVersionsOfDefinitions reads definitions in the version that they were not written
// in: nothing is lost.
func TestVersionsOfDefinitions(t *testing.T) {
	w := begin(t)
	newer := schema.GroupVersionKind{Group: v2.GroupVersion.Group, Version: v2.GroupVersion.Version, Kind: v1.DefinitionKind}
	for file, name := range map[string]string{"namespaced.yaml": "databases", "claimed.yaml": "xpostgresqlinstances"} {
		w.put(t, file)
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
	if _, err := w.Of(t, newer, "").Update(t.Context(), edited, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestDefinitionsAreRefused(t *testing.T) {
	w := begin(t)
	of := func(version, more string) string {
		return `{apiVersion: apiextensions.crossplane.io/` + version + `, kind: CompositeResourceDefinition, metadata: {name: as.example.org},
			spec: {group: example.org, names: {kind: A, plural: as}, versions: [{name: v1, served: true, referenceable: true}], ` + more + `}}`
	}
	refused(t, w, "Claims aren't supported", of("v2", "claimNames: {kind: B, plural: bs}"))
	refused(t, w, "XR connection secrets aren't supported", of("v2", "connectionSecretKeys: [a]"))
	refused(t, w, `supported values: "Namespaced", "Cluster"`, of("v2", "scope: LegacyCluster"))
	refused(t, w, "Only LegacyCluster composite resources can offer claims", of("v1", "scope: Cluster, claimNames: {kind: B, plural: bs}"))
	refused(t, w, "Plural name must be lowercase", of("v1", "claimNames: {kind: B, plural: Bs}"))
	refused(t, w, "Webhook configuration is required", of("v1", "conversion: {strategy: Webhook}"))

	w.Apply(t, w.text(of("v1", "conversion: {strategy: None}, enforcedCompositionRef: {name: a}")))
	refused(t, w, "Value is immutable", of("v1", "enforcedCompositionRef: {name: b}"))
	refused(t, w, "Value is immutable", of("v1", "scope: Cluster, enforcedCompositionRef: {name: a}"))
}

func TestCompositionsAreRefused(t *testing.T) {
	w := begin(t)
	of := func(spec string) string {
		return `{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: a.example.org}, spec: {compositeTypeRef: {apiVersion: example.org/v1, kind: A}, ` + spec + `}}`
	}
	refused(t, w, "an array of pipeline steps is required", of("mode: Pipeline"))
	refused(t, w, `supported values: "Pipeline"`, of("mode: Resources, pipeline: [{step: a, functionRef: {name: b}}]"))
	refused(t, w, "duplicate entries", of("pipeline: [{step: a, functionRef: {name: b}}, {step: a, functionRef: {name: b}}]"))
	refused(t, w, "the Secret source requires a secretRef", of("pipeline: [{step: a, functionRef: {name: b}, credentials: [{name: c, source: Secret}]}]"))
	refused(t, w, "name and matchLabels are mutually exclusive", of("pipeline: [{step: a, functionRef: {name: b}, requirements: {requiredResources: [{requirementName: c, apiVersion: v1, kind: D, name: e, matchLabels: {f: g}}]}}]"))
}
