package cluster_test

import (
	"errors"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
)

// gizmoCRD is an established definition of gizmos, with changes.
func gizmoCRD(change ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gizmos.example.com", UID: "c-1", Generation: 1},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Gizmo", Plural: "gizmos"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1beta1", Served: true},
				{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
				}},
				{Name: "v0"},
			},
		},
	}
	establish(apiextensionsv1.ConditionTrue)(c)
	for _, f := range change {
		f(c)
	}
	return c
}

func establish(status apiextensionsv1.ConditionStatus) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: status}}
	}
}

func TestObserve(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   bool
	}{
		"The same again is no news":    {"a relist tells it", func(*apiextensionsv1.CustomResourceDefinition) {}, false},
		"Another resource version not": {"a status heartbeat", func(c *apiextensionsv1.CustomResourceDefinition) { c.ResourceVersion = "9" }, false},
		"Another generation is":        {"its schema may have changed", func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation = 2 }, true},
		"Another incarnation is":       {"it may be another altogether", func(c *apiextensionsv1.CustomResourceDefinition) { c.UID = types.UID("c-2") }, true},
		"No longer established is":     {"the kind isn't served", establish(apiextensionsv1.ConditionFalse), true},
		"A definition's own now is": {"its objects are instances", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{v1alpha1.OwnedLabel: "true"}
		}, true},
		"A rival's is not": {"the one that serves the kind counts", func(c *apiextensionsv1.CustomResourceDefinition) { c.Name = "others.example.com" }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kinds := cluster.NewKinds(nil)
			if !kinds.Observe(gizmoCRD()) {
				t.Fatal("the first is no news")
			}
			if got := kinds.Observe(gizmoCRD(tc.change)); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

func TestKindsOfDefinitionsCostNoRequest(t *testing.T) {
	kinds := cluster.NewKinds(nil) // without anybody to ask
	kinds.Observe(gizmoCRD())
	r, err := kinds.Resolve(gizmo)
	if err != nil || !r.Namespaced || r.GVR != (schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gizmos"}) {
		t.Errorf("got %v, %v", r, err)
	}
	if got, err := kinds.Preferred(gizmo.GroupKind()); err != nil || got != gizmo {
		t.Errorf("of several versions the one that is stored: got %v, %v", got, err)
	}
	for _, version := range []string{"v0", "v2"} {
		if _, err := kinds.Resolve(gizmo.GroupKind().WithVersion(version)); !cluster.IsUnavailable(err) {
			t.Errorf("%s isn't served: got %v", version, err)
		}
	}
	kinds.Observe(gizmoCRD(establish(apiextensionsv1.ConditionFalse), func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation = 2 }))
	if _, err := kinds.Resolve(gizmo); !cluster.IsUnavailable(err) {
		t.Errorf("what isn't established isn't served: got %v", err)
	}
}

func TestLookup(t *testing.T) {
	kinds := cluster.NewKinds(nil)
	kinds.Observe(gizmoCRD())
	before, known, err := kinds.Lookup(gizmo)
	if err != nil || !known || !before.Namespaced || before.Nested || before.Schema == nil {
		t.Errorf("got %+v, %t", before, known)
	}
	if untyped, known, _ := kinds.Lookup(gizmo.GroupKind().WithVersion("v1beta1")); !known || untyped.Schema != nil {
		t.Errorf("a version without a schema is untyped: got %+v, %t", untyped, known)
	}
	kinds.Observe(gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Generation, c.Labels = 2, map[string]string{v1alpha1.OwnedLabel: "true"}
	}))
	after, _, _ := kinds.Lookup(gizmo)
	if !after.Nested || after.Revision == before.Revision {
		t.Errorf("before %+v, after %+v", before, after)
	}
	rival := gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) { c.Name = "others.example.com" })
	if kinds.Forget(rival) {
		t.Error("a rival's end is the kind's")
	}
	if _, known := kinds.CRD(gizmo.GroupKind()); !known {
		t.Error("a rival's end has ended the kind")
	}
	if !kinds.Forget(gizmoCRD()) {
		t.Error("the kind's end is nobody's")
	}
	if _, known := kinds.CRD(gizmo.GroupKind()); known {
		t.Error("what is gone is still known")
	}
}

func TestOwnedBy(t *testing.T) {
	kinds := cluster.NewKinds(nil)
	for _, name := range []string{"b", "a", "other"} {
		kinds.Observe(gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Name, c.Spec.Names.Kind = name, name
			c.Labels = map[string]string{v1alpha1.OwnedLabel: "true", v1alpha1.DefinitionNameLabel: "mine"}
			if name == "other" {
				c.Labels[v1alpha1.DefinitionNameLabel] = "theirs"
			}
		}))
	}
	var got []string
	for _, c := range kinds.OwnedBy(inventory.Definition{Name: "mine"}) {
		got = append(got, c.Name)
	}
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
}

// server answers discovery. What isn't named here is not asked for.
type server struct {
	discovery.DiscoveryInterface
	groups []metav1.APIGroup
	failed map[schema.GroupVersion]error
	err    error
}

func (s server) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	return &metav1.APIGroupList{Groups: s.groups}, nil, s.failed, s.err
}

func (s server) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	if s.err != nil {
		return nil, s.err
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "gizmos", Kind: "Gizmo", Namespaced: true}}}, nil
}

func TestWhatDiscoveryCantTellIsNotGone(t *testing.T) {
	down := errors.New("no endpoints")
	other := schema.GroupKind{Group: gizmo.Group, Kind: "Other"}
	v1 := metav1.APIGroup{Name: gizmo.Group, Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}}}
	cases := map[string]struct {
		server      server
		ask         schema.GroupKind
		found, gone bool
	}{
		"A kind that is listed is found":                  {server{groups: []metav1.APIGroup{v1}}, gizmo.GroupKind(), true, false},
		"A group that isn't listed is gone":               {server{}, gizmo.GroupKind(), false, true},
		"A kind that its group hasn't is gone":            {server{groups: []metav1.APIGroup{v1}}, other, false, true},
		"A group without versions is not":                 {server{groups: []metav1.APIGroup{{Name: gizmo.Group}}}, gizmo.GroupKind(), false, false},
		"A group whose server is down is not":             {server{failed: map[schema.GroupVersion]error{gizmo.GroupVersion(): down}}, gizmo.GroupKind(), false, false},
		"Nor is a kind that the version that is down has": {server{groups: []metav1.APIGroup{v1}, failed: map[schema.GroupVersion]error{{Group: gizmo.Group, Version: "v2"}: down}}, other, false, false},
		"Another group's server doesn't count":            {server{failed: map[schema.GroupVersion]error{{Group: "other.example.com", Version: "v1"}: down}}, gizmo.GroupKind(), false, true},
		"A failure tells nothing":                         {server{err: down}, gizmo.GroupKind(), false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.NewKinds(tc.server).Preferred(tc.ask)
			if (err == nil) != tc.found || cluster.IsUnavailable(err) != tc.gone {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, known, err := cluster.NewKinds(server{err: down}).Lookup(gizmo); known || err == nil {
		t.Errorf("what couldn't be looked up: got %t, %v", known, err)
	}
}

func TestDiscoveryIsNotBelievedAboutDefinedKinds(t *testing.T) {
	kinds := cluster.NewKinds(server{})
	if _, err := kinds.Resolve(gizmo); err != nil {
		t.Fatal(err)
	}
	kinds.Observe(gizmoCRD())
	kinds.Forget(gizmoCRD())
	if _, err := kinds.Resolve(gizmo); !cluster.IsUnavailable(err) {
		t.Errorf("discovery lags, and what it said before is no longer true: got %v", err)
	}
	if _, err := kinds.Preferred(gizmo.GroupKind()); !cluster.IsUnavailable(err) {
		t.Errorf("nor is its version known: got %v", err)
	}
	kinds.Observe(gizmoCRD())
	if _, err := kinds.Resolve(gizmo); err != nil {
		t.Errorf("it is back: got %v", err)
	}
}
