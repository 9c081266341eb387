package inventory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestAPlaceIsReadAgain(t *testing.T) {
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1")
	for name, want := range map[string]inventory.Place{
		"Only a node":                 {Node: "a"},
		"All fields":                  {Node: "a", Layer: 3, DependsOn: []string{"b", "c"}, DeleteAfter: []string{"d"}, OnDelete: v1alpha1.DeletionRetain},
		"An orphaned object":          {Node: "a", OnDelete: v1alpha1.DeletionOrphan},
		"An item of a collection":     {Node: "a", Item: &inventory.Item{Index: 2, Size: 5}},
		"An object with a dependency": {Node: "a", Layer: 1, DependsOn: []string{"b"}},
	} {
		o := child()
		owner.Mark(o, inventory.Place{Node: "old", Item: &inventory.Item{Index: 7, Size: 8}, DependsOn: []string{"x"}, DeleteAfter: []string{"x"}, OnDelete: v1alpha1.DeletionOrphan})
		owner.Mark(o, want)
		if diff := cmp.Diff(want, inventory.PlaceOf(o), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnInvalidPolicyIsIgnored(t *testing.T) {
	for _, text := range []string{"", "Keep", "orphan", "Delete"} {
		o := child()
		o.SetAnnotations(map[string]string{v1alpha1.OnDeleteAnnotation: text})
		if got := inventory.PlaceOf(o).OnDelete; got != "" {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestTheDialectsAnnotationMarksAnOrphan(t *testing.T) {
	o := child()
	for _, key := range []string{v1alpha1.PolicyAnnotation, v1alpha1.FormerPolicyAnnotation} {
		o.SetAnnotations(map[string]string{key: "Orphaned"})
		if got := inventory.PlaceOf(o).OnDelete; got != v1alpha1.DeletionOrphan {
			t.Errorf("%s: what another implementation was to leave in place is read as %q", key, got)
		}
	}
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1")
	for policy, want := range map[v1alpha1.DeletionPolicy]string{v1alpha1.DeletionOrphan: "Orphaned", v1alpha1.DeletionRetain: "", "": ""} {
		owner.Mark(o, inventory.Place{Node: "a", OnDelete: policy})
		if got := o.GetAnnotations()[v1alpha1.PolicyAnnotation]; got != want {
			t.Errorf("with policy %q it says %q; want %q", policy, got, want)
		}
		if got, there := o.GetAnnotations()[v1alpha1.FormerPolicyAnnotation]; there {
			t.Errorf("with policy %q the former annotation says %q", policy, got)
		}
	}
}

func TestMarks(t *testing.T) {
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1")
	strip := func(o *unstructured.Unstructured) (map[string]string, map[string]string) {
		labels, annotations := inventory.Marks(o)
		left, rest := o.GetLabels(), o.GetAnnotations()
		for _, key := range labels {
			delete(left, key)
		}
		for _, key := range annotations {
			delete(rest, key)
		}
		return left, rest
	}
	all := inventory.Place{Node: "a", Item: &inventory.Item{Index: 1, Size: 2}, Layer: 3, DependsOn: []string{"b"}, DeleteAfter: []string{"d"}, OnDelete: v1alpha1.DeletionOrphan}

	o := child()
	owner.Mark(o, all)
	labels, annotations := strip(o)
	if diff := cmp.Diff(map[string]string{"team": "web"}, labels); diff != "" {
		t.Errorf("labels of its own (-want +got):\n%s", diff)
	}
	if len(annotations) > 0 {
		t.Errorf("annotations are left: %v", annotations)
	}

	o = child()
	owner.Mark(o, all)
	o.SetLabels(with(o.GetLabels(), v1alpha1.ManagedByLabel, "Helm"))
	o.SetLabels(with(o.GetLabels(), v1alpha1.ApplySetIDLabel, "applyset-x-v1"))
	labels, _ = strip(o)
	want := map[string]string{
		"team": "web", v1alpha1.ManagedByLabel: "Helm",
		v1alpha1.ApplySetIDLabel: "applyset-x-v1", v1alpha1.OwnedLabel: "true", v1alpha1.VersionLabel: "v1",
	}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("labels that are kept (-want +got):\n%s", diff)
	}
}

func annotated(key, value string) *unstructured.Unstructured {
	o := instance()
	o.SetAnnotations(map[string]string{key: value})
	return o
}

func TestLimits(t *testing.T) {
	cases := map[string]struct {
		annotations map[string]string
		want        inventory.Limits
		trouble     bool
	}{
		"None":             {},
		"The definition's": {map[string]string{v1alpha1.DeletionDefaultsAnnotation: "timeout=1m0s,forceAfter=1h0m0s"}, inventory.Limits{Timeout: time.Minute, ForceAfter: time.Hour}, false},
		"Those of the instance override those of the definition": {map[string]string{v1alpha1.DeletionDefaultsAnnotation: "timeout=1m0s", v1alpha1.DeletionTimeoutAnnotation: "2m"}, inventory.Limits{Timeout: 2 * time.Minute}, false},
		"Those of the instance alone":                            {map[string]string{v1alpha1.ForceAfterAnnotation: "24h"}, inventory.Limits{ForceAfter: 24 * time.Hour}, false},
		"An invalid duration is a problem":                       {map[string]string{v1alpha1.DeletionDefaultsAnnotation: "timeout=1m0s", v1alpha1.DeletionTimeoutAnnotation: "soon"}, inventory.Limits{Timeout: time.Minute}, true},
		"Zero is invalid":                                        {map[string]string{v1alpha1.ForceAfterAnnotation: "0s"}, inventory.Limits{}, true},
		"Malformed defaults are ignored":                         {map[string]string{v1alpha1.DeletionDefaultsAnnotation: "timeout=soon,,x"}, inventory.Limits{}, false},
	}
	for name, tc := range cases {
		o := instance()
		o.SetAnnotations(tc.annotations)
		got, trouble := inventory.LimitsOf(o, inventory.DefaultsOf(o))
		if got != tc.want || (len(trouble) > 0) != tc.trouble {
			t.Errorf("%s: %+v, trouble %v", name, got, trouble)
		}
	}
}

func TestPolicies(t *testing.T) {
	of := func(node string, recorded v1alpha1.DeletionPolicy) *unstructured.Unstructured {
		o := child()
		inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1").Mark(o, inventory.Place{Node: node, OnDelete: recorded})
		return o
	}
	cases := map[string]struct {
		says    string
		child   *unstructured.Unstructured
		want    v1alpha1.DeletionPolicy
		trouble bool
	}{
		"By default it is deleted":              {"", of("a", ""), v1alpha1.DeletionDelete, false},
		"The definition's":                      {"", of("a", v1alpha1.DeletionRetain), v1alpha1.DeletionRetain, false},
		"The instance's for all":                {"Orphan", of("a", v1alpha1.DeletionRetain), v1alpha1.DeletionOrphan, false},
		"The instance's for one":                {"Orphan, a=Delete", of("a", v1alpha1.DeletionRetain), v1alpha1.DeletionDelete, false},
		"A policy for another node":             {"b=Orphan", of("a", ""), v1alpha1.DeletionDelete, false},
		"An invalid policy is ignored":          {"a=Keep", of("a", v1alpha1.DeletionRetain), v1alpha1.DeletionRetain, true},
		"A policy for an empty node is ignored": {"=Orphan", of("a", ""), v1alpha1.DeletionDelete, true},
	}
	for name, tc := range cases {
		policies, trouble := inventory.PoliciesOf(annotated(v1alpha1.DeletionPolicyAnnotation, tc.says), inventory.Defaults{Overrides: inventory.Overrides{DeletionPolicy: v1alpha1.OverrideAll}})
		if got := policies.Of(tc.child); got != tc.want || (len(trouble) > 0) != tc.trouble {
			t.Errorf("%s: %s, trouble %v", name, got, trouble)
		}
	}
}

func TestForced(t *testing.T) {
	cases := map[string]struct {
		asked, node, kind, name string
		want                    bool
	}{
		"No name":                       {"", "a", "ConfigMap", "x", false},
		"The id of its node":            {"b, a", "a", "ConfigMap", "x", true},
		"Its kind and name":             {"ConfigMap/x", "a", "ConfigMap", "x", true},
		"Another name of its kind":      {"ConfigMap/y", "a", "ConfigMap", "x", false},
		"Its kind alone":                {"ConfigMap", "a", "ConfigMap", "x", false},
		"A kind that blocks as a whole": {"ConfigMap", "", "ConfigMap", "", true},
		"All":                           {"all", "a", "ConfigMap", "x", true},
	}
	for name, tc := range cases {
		if got := inventory.ForcedOf(annotated(v1alpha1.ForceDeleteAnnotation, tc.asked), inventory.Overrides{}).Matches(tc.node, tc.kind, tc.name); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestInstanceOf(t *testing.T) {
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1")
	o := child()
	owner.Mark(o, inventory.Place{Node: "a"})
	if key, version, ok := inventory.InstanceOf(o); !ok || key != owner.Key() || version != "v1alpha1" {
		t.Errorf("%v %s %t", key, version, ok)
	}
	o.SetLabels(with(o.GetLabels(), v1alpha1.InstanceNameLabel, "another"))
	if key, _, ok := inventory.InstanceOf(o); ok {
		t.Errorf("labels that contradict each other name %v", key)
	}
}

func TestInstanceOfReadsEveryDialect(t *testing.T) {
	yes := true
	long := strings.Repeat("a-long-part.", 8) + "end"
	marked := func(name, group string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		parent := instance()
		parent.SetName(name)
		parent.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Vpc"})
		o := child()
		o.SetNamespace("prod")
		inventory.OwnerOf(parent, object.Definition{Name: "vpc"}, "v1").Mark(o, inventory.Place{Node: "a"})
		change(o)
		return o
	}
	with := func(of object.Key, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := child()
		o.SetNamespace("prod")
		o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: inventory.ApplySetID(of)})
		change(o)
		return o
	}
	unchanged := func(*unstructured.Unstructured) {}
	label := func(key, value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			labels := o.GetLabels()
			labels[key] = value
			o.SetLabels(labels)
		}
	}
	annotation := func(key, value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			annotations[key] = value
			o.SetAnnotations(annotations)
		}
	}
	claimRef := func(kind, name string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.Object["spec"] = map[string]any{"claimRef": map[string]any{"apiVersion": "kro.run/v1", "kind": kind, "namespace": "team", "name": name}}
		}
	}
	controlled := func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "kro.run/v1", Kind: "Vpc", Name: "main", Controller: &yes}})
	}
	key := func(namespace, kind, name string) object.Key {
		return object.Key{Group: "kro.run", Kind: kind, Namespace: namespace, Name: name}
	}
	main, claim, cluster := key("prod", "Vpc", "main"), key("team", "Claim", "x"), key("", "Vpc", "main")
	for name, tc := range map[string]struct {
		reason string
		child  *unstructured.Unstructured
		want   object.Key // none if it is empty
	}{
		"A child of a graph":             {"its labels name the instance", marked("main", "kro.run", unchanged), main},
		"An instance with a long name":   {"an annotation has it in full", marked(long, "kro.run", unchanged), key("prod", "Vpc", long)},
		"An instance of a long group":    {"an annotation has it in full", marked("main", long, unchanged), object.Key{Group: long, Kind: "Vpc", Namespace: "prod", Name: "main"}},
		"An annotation of another name":  {"it isn't the full form of the label", marked("main", "kro.run", annotation(v1alpha1.InstanceNameAnnotation, "other")), main},
		"An annotation of another group": {"it isn't the full form of the label", marked("main", "kro.run", annotation(v1alpha1.InstanceGroupAnnotation, "other")), main},
		"A child without a version":      {"the instance can't be read", marked("main", "kro.run", label(v1alpha1.InstanceVersionLabel, "")), object.Key{}},
		"A child without a name": {"there is no such instance", with(key("prod", "Vpc", ""), func(o *unstructured.Unstructured) {
			label(v1alpha1.InstanceGroupLabel, "kro.run")(o)
			label(v1alpha1.InstanceKindLabel, "Vpc")(o)
			label(v1alpha1.InstanceNamespaceLabel, "prod")(o)
			label(v1alpha1.InstanceVersionLabel, "v1")(o)
		}), object.Key{}},
		"A composite of a claim":            {"its claimRef names the claim", with(claim, claimRef("Claim", "x")), claim},
		"A claim without a kind":            {"there is no such claim", with(key("team", "", "x"), claimRef("", "x")), object.Key{}},
		"A claim without a name":            {"there is no such claim", with(key("team", "Claim", ""), claimRef("Claim", "")), object.Key{}},
		"A child with a controller":         {"it is in the child's namespace", with(main, controlled), main},
		"A child with a cluster-scoped one": {"the ApplySet is that of a cluster-scoped instance", with(cluster, controlled), cluster},
		"A child of another ApplySet":       {"its metadata contradict each other", with(claim, controlled), object.Key{}},
		"A child of no ApplySet":            {"it belongs to nobody", with(main, func(o *unstructured.Unstructured) { controlled(o); o.SetLabels(nil) }), object.Key{}},
	} {
		got, version, ok := inventory.InstanceOf(tc.child)
		if got != tc.want || ok != (tc.want != object.Key{}) || ok && version != "v1" {
			t.Errorf("%s: %s: got %v, %q, %t", name, tc.reason, got, version, ok)
		}
	}
}
