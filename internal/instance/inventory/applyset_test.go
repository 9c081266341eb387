package inventory_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

var (
	configMaps  = schema.GroupKind{Kind: "ConfigMap"}
	deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}
)

func instance() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Vpc"})
	o.SetNamespace("prod")
	o.SetName("main")
	o.SetUID("i-1")
	return o
}

func TestUnionAndContains(t *testing.T) {
	none := inventory.Of(nil)
	maps := inventory.Of([]schema.GroupKind{configMaps}, "a")
	both := inventory.Of([]schema.GroupKind{configMaps, deployments}, "a", "b")
	cases := map[string]struct{ got, want bool }{
		"Everything contains nothing":                                  {maps.Contains(none), true},
		"Nothing contains nothing":                                     {none.Contains(none), true},
		"An inventory contains itself":                                 {both.Contains(both), true},
		"More contains less":                                           {both.Contains(maps), true},
		"Less doesn't contain more":                                    {maps.Contains(both), false},
		"Namespaces count":                                             {maps.Contains(inventory.Of([]schema.GroupKind{configMaps}, "b")), false},
		"Kinds count":                                                  {maps.Contains(inventory.Of([]schema.GroupKind{deployments}, "a")), false},
		"A union contains the former inventory":                        {maps.Union(both).Contains(maps), true},
		"A union contains the added inventory":                         {maps.Union(both).Contains(both), true},
		"A smaller wanted inventory leaves the recorded one unchanged": {maps.Contains(both), false},
		"Nothing can grow":                                             {none.Union(maps).Contains(maps), true},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s: want %t, got %t", name, tc.want, tc.got)
		}
	}
}

func TestNext(t *testing.T) {
	maps := inventory.Of([]schema.GroupKind{configMaps}, "a")
	both := inventory.Of([]schema.GroupKind{configMaps, deployments}, "a", "b")
	for name, tc := range map[string]struct {
		reason           string
		recorded, wanted inventory.Inventory
		unread           []schema.GroupKind
		settled          bool
		want             inventory.Inventory
	}{
		"It grows before anything is settled":        {"objects of the new kind are created next", maps, both, nil, false, both},
		"It doesn't shrink before all is settled":    {"objects of the former kind may remain", both, maps, nil, false, both},
		"It shrinks once all is settled":             {"objects of the former kind are gone", both, maps, nil, true, maps},
		"It doesn't shrink by a kind that is unread": {"its objects may be in any recorded namespace", both, maps, []schema.GroupKind{deployments}, true, both},
		"It doesn't grow by a kind that is unread":   {"the instance never had objects of it", maps, maps, []schema.GroupKind{deployments}, true, maps},
		"Namespaces shrink though a kind is unread":  {"the instance never had objects of it", inventory.Of([]schema.GroupKind{configMaps}, "a", "b"), maps, []schema.GroupKind{deployments}, true, maps},
	} {
		if diff := cmp.Diff(tc.want, inventory.Next(tc.recorded, tc.wanted, tc.unread, tc.settled)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.reason, diff)
		}
	}
}

func TestMetadataIsReadAgain(t *testing.T) {
	o := instance()
	owner := inventory.OwnerOf(o, object.Definition{Name: "vpc", Namespace: "team", UID: "d-1"}, "v1")
	metadata := inventory.MetadataOf(owner, inventory.Of([]schema.GroupKind{deployments, configMaps}, "b", "a"), inventory.Defaults{
		Limits: inventory.Limits{Timeout: time.Minute, ForceAfter: time.Hour}, OnDelete: map[string]v1alpha1.DeletionPolicy{"b": "Retain", "a": "Retain", "c": "Orphan"},
	})
	want := inventory.Metadata{
		Labels: map[string]string{
			"kro.run/owned": "true", "kro.run/kro-version": "v1",
			"kro.run/resource-graph-definition-id": "d-1", "kro.run/resource-graph-definition-name": "vpc",
			"kro.run/resource-graph-definition-namespace": "team", "applyset.kubernetes.io/id": owner.ID(),
		},
		Annotations: map[string]string{
			"applyset.kubernetes.io/tooling":               "kro/v1",
			"applyset.kubernetes.io/contains-group-kinds":  "ConfigMap,Deployment.apps",
			"applyset.kubernetes.io/additional-namespaces": "a,b",
			"espalier.dev/deletion-defaults":               "timeout=1m0s,forceAfter=1h0m0s,Orphan=c,Retain=a;b",
			"internal.kro.run/applyset-inventory-hash":     metadata.Annotations["internal.kro.run/applyset-inventory-hash"],
		},
		Finalizer: "vpc.team.kro.run/finalizer",
	}
	if diff := cmp.Diff(want, metadata); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	configuration := metadata.Configuration(o)
	if configuration.GetUID() != "i-1" {
		t.Error("a late write could bring back an instance that is gone")
	}
	read := inventory.Read(configuration)
	if diff := cmp.Diff([]schema.GroupKind{configMaps, deployments}, read.GroupKinds()); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if !metadata.IsOn(configuration) {
		t.Error("an instance with the metadata is said not to have it")
	}
}

func TestMetadataIsOn(t *testing.T) {
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc", UID: "d-1"}, "v1")
	metadata := inventory.MetadataOf(owner, inventory.Of([]schema.GroupKind{configMaps}), inventory.Defaults{})
	cases := map[string]struct {
		reason string
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"Another version of this program is no reason to write": {
			reason: "ten thousand instances would be written after each upgrade",
			change: func(o *unstructured.Unstructured) {
				o.SetLabels(with(o.GetLabels(), v1alpha1.VersionLabel, "v2"))
				o.SetAnnotations(with(o.GetAnnotations(), v1alpha1.ApplySetToolingAnnotation, "kro/v2"))
			},
			want: true,
		},
		"Other labels don't matter": {
			reason: "other clients set them",
			change: func(o *unstructured.Unstructured) { o.SetLabels(with(o.GetLabels(), "team", "web")) },
			want:   true,
		},
		"A finalizer that is gone is added again": {
			reason: "without it the instance could go before its children",
			change: func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"other/finalizer"}) },
		},
		"The labels of another incarnation of the definition are replaced": {
			reason: "the label names the definition that serves it now",
			change: func(o *unstructured.Unstructured) {
				o.SetLabels(with(o.GetLabels(), v1alpha1.DefinitionIDLabel, "d-2"))
			},
		},
		"A smaller inventory is replaced": {
			reason: "a kind that is written must be found again",
			change: func(o *unstructured.Unstructured) {
				o.SetAnnotations(with(o.GetAnnotations(), v1alpha1.ApplySetKindsAnnotation, ""))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := metadata.Configuration(instance())
			tc.change(o)
			if got := metadata.IsOn(o); got != tc.want {
				t.Errorf("%s: want %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}

func with(m map[string]string, key, value string) map[string]string {
	m[key] = value
	return m
}

func TestFormerFinalizers(t *testing.T) {
	const uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0.kro.run/finalizer"
	cases := map[string]struct {
		reason  string
		carried []string
		current string
		want    []string
	}{
		"The current one stays":                         {"it is what keeps the instance", []string{"kro.run/finalizer"}, "kro.run/finalizer", nil},
		"A finalizer with a UID is retired":             {"its definition was deleted and made anew", []string{"kro.run/finalizer", uid}, "kro.run/finalizer", []string{uid}},
		"A finalizer of another name is retired":        {"a kind is served by one definition at a time", []string{"old.team.kro.run/finalizer"}, "vpc.team.kro.run/finalizer", []string{"old.team.kro.run/finalizer"}},
		"A finalizer of the other spelling is retired":  {"a group became a graph definition, or back", []string{"kro.run/finalizer"}, "vpc.team.kro.run/finalizer", []string{"kro.run/finalizer"}},
		"Foreign finalizers are not retired":            {"who put it there waits for it", []string{"foregroundDeletion", "example.com/kro.run", "xkro.run/finalizer", "kro.run/finalizer2"}, "kro.run/finalizer", nil},
		"Retired finalizers keep their order":           {"the same input gives the same bytes", []string{uid, "b.a.kro.run/finalizer"}, "kro.run/finalizer", []string{uid, "b.a.kro.run/finalizer"}},
		"Without finalizers there is nothing to retire": {"", nil, "kro.run/finalizer", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := instance()
			o.SetFinalizers(tc.carried)
			if diff := cmp.Diff(tc.want, inventory.FormerFinalizers(o, tc.current)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
