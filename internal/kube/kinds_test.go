package kube_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
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
		want   kube.CRDChange
	}{
		"nothing":                        {"a relist reports it", func(*apiextensionsv1.CustomResourceDefinition) {}, kube.CRDUnchanged},
		"the resource version":           {"the status changes", func(c *apiextensionsv1.CustomResourceDefinition) { c.ResourceVersion = "9" }, kube.CRDUnchanged},
		"the generation":                 {"its schema may have changed", func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation = 2 }, kube.CRDSpecChanged},
		"the UID":                        {"it is another object", func(c *apiextensionsv1.CustomResourceDefinition) { c.UID = types.UID("c-2") }, kube.CRDSpecChanged},
		"it is not established any more": {"the kind isn't served", establish(apiextensionsv1.ConditionFalse), kube.CRDSpecChanged},
		"its controller": {"the owner has changed", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "d-1", Controller: new(true)}}
		}, kube.CRDStatusChanged},
		"the label of a definition": {"its objects are instances", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{v1alpha1.OwnedLabel: "true"}
		}, kube.CRDSpecChanged},
		"a condition about its names": {"the definition reports it", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = append(c.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Message: "taken"})
		}, kube.CRDStatusChanged},
		"the name": {"the CustomResourceDefinition that serves the kind counts", func(c *apiextensionsv1.CustomResourceDefinition) { c.Name = "others.example.com" }, kube.CRDUnchanged},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kinds := kube.NewKinds(nil)
			if observe(kinds, gizmoCRD()) != kube.CRDSpecChanged {
				t.Fatal("the first CustomResourceDefinition is no change")
			}
			if got := observe(kinds, gizmoCRD(tc.change)); got != tc.want {
				t.Errorf("%s: got %d", tc.reason, got)
			}
		})
	}
}

func TestKindsOfCRDsCostNoRequest(t *testing.T) {
	kinds := kube.NewKinds(nil) // without discovery
	observe(kinds, gizmoCRD())
	r, err := kinds.Resolve(t.Context(), gizmo)
	if err != nil || !r.Namespaced || r.GVR != (schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gizmos"}) {
		t.Errorf("got %v, %v", r, err)
	}
	if got, err := kinds.Preferred(t.Context(), gizmo.GroupKind()); err != nil || got != gizmo {
		t.Errorf("the storage version is preferred: got %v, %v", got, err)
	}
	for _, version := range []string{"v0", "v2"} {
		if _, err := kinds.Resolve(t.Context(), gizmo.GroupKind().WithVersion(version)); !kube.IsNoKindMatch(err) {
			t.Errorf("%s isn't served: got %v", version, err)
		}
	}
	observe(kinds, gizmoCRD(establish(apiextensionsv1.ConditionFalse), func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation = 2 }))
	if _, err := kinds.Resolve(t.Context(), gizmo); !kube.IsNoKindMatch(err) {
		t.Errorf("a kind that is not established: got %v", err)
	}
}

func TestLookup(t *testing.T) {
	kinds := kube.NewKinds(nil)
	observe(kinds, gizmoCRD())
	before, known, err := kinds.Lookup(t.Context(), gizmo)
	if err != nil || !known || !before.Namespaced || before.ServedByDefinition || before.Schema == nil || before.NameRule != object.Subdomain {
		t.Errorf("got %+v, %t", before, known)
	}
	if other, known, _ := kinds.Lookup(t.Context(), gizmo.GroupKind().WithVersion("v1beta1")); !known || other.Schema != nil {
		t.Errorf("a version without a schema: got %+v, %t", other, known)
	}
	observe(kinds, gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Generation, c.Labels = 2, map[string]string{v1alpha1.OwnedLabel: "true"}
	}))
	after, _, _ := kinds.Lookup(t.Context(), gizmo)
	if !after.ServedByDefinition || after.Revision == before.Revision {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if again, _, _ := kinds.Lookup(t.Context(), gizmo); again.Schema != after.Schema {
		t.Error("each lookup returns a schema of its own")
	}
	observe(kinds, gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Spec.Versions[1].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Title: "changed"}}
	}))
	if changed, _, _ := kinds.Lookup(t.Context(), gizmo); changed.Schema == nil || changed.Schema.Title != "changed" {
		t.Errorf("after a change of the schema: got %+v", changed)
	}
	other := gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) { c.Name = "others.example.com" })
	if kinds.ForgetCRD(other) {
		t.Error("the deletion of another CustomResourceDefinition is reported as that of the kind")
	}
	if _, known := kinds.CRD(gizmo.GroupKind()); !known {
		t.Error("the kind is forgotten with another CustomResourceDefinition")
	}
	if !kinds.ForgetCRD(gizmoCRD()) {
		t.Error("the deletion of the kind is not reported")
	}
	if _, known := kinds.CRD(gizmo.GroupKind()); known {
		t.Error("the deleted kind is still known")
	}
}

func TestRecordCRDBeforeItsEvent(t *testing.T) {
	at := func(revision string, change ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
		return gizmoCRD(append(change, func(c *apiextensionsv1.CustomResourceDefinition) { c.ResourceVersion = revision })...)
	}
	unestablished := establish(apiextensionsv1.ConditionFalse)
	known := func(k *kube.Kinds) string {
		c, ok := k.CRD(gizmo.GroupKind())
		if !ok {
			return ""
		}
		return c.ResourceVersion
	}

	kinds := kube.NewKinds(nil)
	if kinds.RecordCRD(at("10", unestablished)) != kube.CRDSpecChanged || known(kinds) != "10" {
		t.Errorf("an answer is news: known is %q", known(kinds))
	}
	if observe(kinds, at("10", unestablished)) != kube.CRDUnchanged {
		t.Error("its event is no news")
	}
	if observe(kinds, at("11")) != kube.CRDSpecChanged || known(kinds) != "11" {
		t.Error("what comes after it is")
	}

	kinds.RecordCRD(at("20", unestablished))
	if observe(kinds, at("15")) != kube.CRDUnchanged || known(kinds) != "20" {
		t.Errorf("an event from before an answer undoes it: known is %q", known(kinds))
	}

	kinds.ForgetCRD(at("30"))
	if kinds.RecordCRD(at("25")) != kube.CRDUnchanged || known(kinds) != "" {
		t.Errorf("an answer that the watch has overtaken brings back what is gone: known is %q", known(kinds))
	}
}

func TestOwnedBy(t *testing.T) {
	kinds := kube.NewKinds(nil)
	for _, name := range []string{"b", "a", "other"} {
		observe(kinds, gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Name, c.Spec.Names.Kind = name, name
			c.Labels = map[string]string{v1alpha1.OwnedLabel: "true", v1alpha1.DefinitionNameLabel: "mine"}
			if name == "other" {
				c.Labels[v1alpha1.DefinitionNameLabel] = "theirs"
			}
		}))
	}
	var got []string
	for _, c := range kinds.CRDsOwnedBy(object.Definition{Name: "mine"}) {
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

// OpenAPIV3 has no schemas.
func (server) OpenAPIV3() openapi.Client { return noSchemas{} }

type noSchemas struct{ openapi.Client }

func (noSchemas) Paths() (map[string]openapi.GroupVersion, error) { return nil, nil }

func TestAKindIsNotGoneIfDiscoveryFails(t *testing.T) {
	down := errors.New("no endpoints")
	other := schema.GroupKind{Group: gizmo.Group, Kind: "Other"}
	v1 := metav1.APIGroup{Name: gizmo.Group, Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}}}
	cases := map[string]struct {
		server      server
		kind        schema.GroupKind
		found, gone bool
	}{
		"a kind that is listed":                       {server{groups: []metav1.APIGroup{v1}}, gizmo.GroupKind(), true, false},
		"a kind of a group that isn't listed":         {server{}, gizmo.GroupKind(), false, true},
		"a kind that its group does not have":         {server{groups: []metav1.APIGroup{v1}}, other, false, true},
		"a kind of a group without versions":          {server{groups: []metav1.APIGroup{{Name: gizmo.Group}}}, gizmo.GroupKind(), false, false},
		"a kind of a group whose server is down":      {server{failed: map[schema.GroupVersion]error{gizmo.GroupVersion(): down}}, gizmo.GroupKind(), false, false},
		"a kind that an unavailable version may have": {server{groups: []metav1.APIGroup{v1}, failed: map[schema.GroupVersion]error{{Group: gizmo.Group, Version: "v2"}: down}}, other, false, false},
		"the server of another group is down":         {server{failed: map[schema.GroupVersion]error{{Group: "other.example.com", Version: "v1"}: down}}, gizmo.GroupKind(), false, true},
		"discovery fails":                             {server{err: down}, gizmo.GroupKind(), false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := kube.NewKinds(tc.server).Preferred(t.Context(), tc.kind)
			if (err == nil) != tc.found || kube.IsNoKindMatch(err) != tc.gone {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, known, err := kube.NewKinds(server{err: down}).Lookup(t.Context(), gizmo); known || err == nil {
		t.Errorf("Lookup while discovery fails: got %t, %v", known, err)
	}
}

// counting counts the requests.
type counting struct {
	server
	requests *int
}

func (c counting) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	*c.requests++
	return c.server.ServerResourcesForGroupVersion(gv)
}

func (c counting) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	*c.requests++
	return c.server.GroupsAndMaybeResources()
}

func TestAMissingKindIsCached(t *testing.T) {
	other := gizmo.GroupVersion().WithKind("Other")
	cases := map[string]struct {
		reason   string
		before   func(*kube.Kinds)
		requests int
		found    bool // the kind Gizmo; the server never has Other
	}{
		"the groups are unknown":   {"an answer is cached for a while", func(*kube.Kinds) {}, 2, true},
		"the group does not exist": {"an event would report it", func(k *kube.Kinds) { k.SetGroupsComplete(true) }, 0, false},
		"the group has CustomResourceDefinitions": {"an event would report a new kind", func(k *kube.Kinds) {
			k.SetGroupsComplete(true)
			k.ObserveGroup(gizmo.GroupVersion(), kube.CustomResources)
		}, 2, true},
		"an aggregated server serves the group": {"it may have kinds of its own", func(k *kube.Kinds) { k.SetGroupsComplete(true); k.ObserveGroup(gizmo.GroupVersion(), kube.Aggregated) }, 2, true},
		"the group is gone": {"its cached kinds are dropped", func(k *kube.Kinds) {
			k.SetGroupsComplete(true)
			k.ObserveGroup(gizmo.GroupVersion(), kube.CustomResources)
			k.ForgetGroup(gizmo.GroupVersion())
		}, 0, false},
		"the CustomResourceDefinition is gone": {"discovery lags", func(k *kube.Kinds) {
			k.SetGroupsComplete(true)
			k.ObserveGroup(gizmo.GroupVersion(), kube.CustomResources)
			observe(k, gizmoCRD())
			k.ForgetCRD(gizmoCRD())
		}, 1, false},
		"an aggregated server serves the kind instead": {"a kind may move to an aggregated API", func(k *kube.Kinds) {
			k.SetGroupsComplete(true)
			observe(k, gizmoCRD())
			k.ForgetCRD(gizmoCRD())
			k.ObserveGroup(gizmo.GroupVersion(), kube.Aggregated)
		}, 2, true},
		"the group is gone with its CustomResourceDefinition": {"no server serves it", func(k *kube.Kinds) { k.SetGroupsComplete(true); observe(k, gizmoCRD()); k.ForgetCRD(gizmoCRD()) }, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			requests := 0
			kinds := kube.NewKinds(counting{server{}, &requests})
			tc.before(kinds)
			for range 100 {
				if _, err := kinds.Resolve(t.Context(), gizmo); (err == nil) != tc.found || err != nil && !kube.IsNoKindMatch(err) {
					t.Fatalf("%s: got %v", tc.reason, err)
				}
				if _, err := kinds.Resolve(t.Context(), other); !kube.IsNoKindMatch(err) {
					t.Fatalf("kind Other: got %v", err)
				}
			}
			if requests != tc.requests {
				t.Errorf("%s: %d requests, want %d", tc.reason, requests, tc.requests)
			}
		})
	}
}

func TestObserveGroup(t *testing.T) {
	kinds := kube.NewKinds(nil)
	for i, event := range []struct {
		reason  string
		by      kube.Server
		changed bool
	}{
		{"the group is new", kube.CustomResources, true},
		{"events of the APIService do not change kinds of the API server", kube.CustomResources, false},
		{"an aggregated server serves it now", kube.Aggregated, true},
		{"an aggregated server may have new kinds", kube.Aggregated, true},
		{"the API server serves it again", kube.CustomResources, true},
		{"it is built in after an upgrade", kube.BuiltIn, true},
		{"built-in kinds don't change", kube.BuiltIn, false},
	} {
		if got := kinds.ObserveGroup(gizmo.GroupVersion(), event.by); got != event.changed {
			t.Errorf("event %d: %s: got %t", i, event.reason, got)
		}
	}
}

func TestServerOf(t *testing.T) {
	cases := map[string]struct {
		reason     string
		apiService map[string]any
		want       kube.Server
	}{
		"Registered at the start of the API server": {"it is built in", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
		}, kube.BuiltIn},
		"Registered for CustomResourceDefinitions": {"new kinds may come", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"kube-aggregator.kubernetes.io/automanaged": "true"}},
		}, kube.CustomResources},
		"Registered without a label": {"new kinds may come", map[string]any{}, kube.CustomResources},
		"Registered for an aggregated API server": {"the labels don't matter", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
			"spec":     map[string]any{"service": map[string]any{"name": "metrics-server"}},
		}, kube.Aggregated},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := kube.ServerOf(&unstructured.Unstructured{Object: tc.apiService}); got != tc.want {
				t.Errorf("%s: got %d", tc.reason, got)
			}
		})
	}
}

func TestAKindIsGoneOnlyWhereNoVersionOfItsGroupMayHaveIt(t *testing.T) {
	down := errors.New("no endpoints")
	cases := map[string]struct {
		server   server
		versions []schema.GroupVersion
		want     kube.Availability
		fails    bool
	}{
		"the group does not exist":               {server{}, nil, kube.Gone, false},
		"the group exists and is not listed yet": {server{}, []schema.GroupVersion{gizmo.GroupVersion()}, kube.Served, false},
		"the server of the group is down":        {server{err: down}, []schema.GroupVersion{gizmo.GroupVersion()}, "", true},
		"the most stable version is preferred":   {server{}, []schema.GroupVersion{{Group: gizmo.Group, Version: "v2beta1"}, gizmo.GroupVersion(), {Group: gizmo.Group, Version: "v1alpha1"}}, kube.Served, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				kinds := kube.NewKinds(tc.server)
				kinds.SetGroupsComplete(true)
				for _, gv := range tc.versions {
					kinds.ObserveGroup(gv, kube.Aggregated)
				}
				gvk, got, err := kinds.Availability(t.Context(), gizmo.GroupKind())
				if got != tc.want || (err != nil) != tc.fails {
					t.Fatalf("got %q, %v", got, err)
				}
				if got == kube.Served && gvk != gizmo {
					t.Fatalf("in version %s", gvk.Version)
				}
			}
		})
	}
}

// TestAnAnswerFromAnEarlierEpochIsNotCached adds a version of a group during the
// request for it.
func TestAnAnswerFromAnEarlierEpochIsNotCached(t *testing.T) {
	requested, answer := make(chan struct{}), make(chan struct{})
	kinds := kube.NewKinds(slow{requested: requested, answer: answer})
	first := make(chan error)
	go func() {
		_, err := kinds.Resolve(context.Background(), gizmo)
		first <- err
	}()
	<-requested
	kinds.SetGroupsComplete(true)
	kinds.ObserveGroup(gizmo.GroupVersion(), kube.CustomResources)
	second := make(chan error)
	go func() {
		_, err := kinds.Resolve(context.Background(), gizmo)
		second <- err
	}()
	<-requested // a second request: the answer to the first is not shared
	close(answer)
	if err := <-first; !kube.IsNoKindMatch(err) {
		t.Errorf("before: got %v", err)
	}
	if err := <-second; !kube.IsNoKindMatch(err) {
		t.Errorf("during: got %v", err)
	}
}

// slow answers with an empty list once answer is closed.
type slow struct {
	server
	requested, answer chan struct{}
}

func (s slow) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	s.requested <- struct{}{}
	<-s.answer
	return &metav1.APIResourceList{}, nil
}

func TestHangingDiscoveryRespectsTheContext(t *testing.T) {
	hanging := make(chan struct{})
	defer close(hanging)
	kinds := kube.NewKinds(stuck{until: hanging})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cancelled")
	cancel(cause)
	if _, err := kinds.Resolve(ctx, gizmo); !errors.Is(err, cause) {
		t.Errorf("Resolve: got %v", err)
	}
	if _, _, err := kinds.Availability(ctx, gizmo.GroupKind()); !errors.Is(err, cause) {
		t.Errorf("Availability: got %v", err)
	}
	if _, _, err := kinds.Lookup(ctx, gizmo); !errors.Is(err, cause) {
		t.Errorf("Lookup: got %v", err)
	}
}

type stuck struct {
	server
	until chan struct{}
}

func (s stuck) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	<-s.until
	return s.server.ServerResourcesForGroupVersion(gv)
}

func (s stuck) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	<-s.until
	return s.server.GroupsAndMaybeResources()
}

func TestDiscoveryIsNotUsedForDefinedKinds(t *testing.T) {
	kinds := kube.NewKinds(server{})
	if _, err := kinds.Resolve(t.Context(), gizmo); err != nil {
		t.Fatal(err)
	}
	observe(kinds, gizmoCRD())
	kinds.ForgetCRD(gizmoCRD())
	if _, err := kinds.Resolve(t.Context(), gizmo); !kube.IsNoKindMatch(err) {
		t.Errorf("Resolve after the deletion, while discovery lags: got %v", err)
	}
	if _, err := kinds.Preferred(t.Context(), gizmo.GroupKind()); !kube.IsNoKindMatch(err) {
		t.Errorf("Preferred after the deletion: got %v", err)
	}
	observe(kinds, gizmoCRD())
	if _, err := kinds.Resolve(t.Context(), gizmo); err != nil {
		t.Errorf("Resolve after it was created again: got %v", err)
	}
}

// observe lets kinds observe a CustomResourceDefinition.
func observe(kinds *kube.Kinds, c *apiextensionsv1.CustomResourceDefinition) kube.CRDChange {
	return kinds.ObserveCRD(crd.Keep(c))
}

// TestSchemasAreSharedByAllWhoLookThemUp: each compiled definition keeps the schemas of its kinds.
func TestSchemasAreSharedByAllWhoLookThemUp(t *testing.T) {
	kinds := kube.NewKinds(nil)
	gizmo := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gizmo"}
	withFields := func(names ...string) func(*apiextensionsv1.CustomResourceDefinition) {
		return func(c *apiextensionsv1.CustomResourceDefinition) {
			root := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
			for _, name := range names {
				root.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			}
			c.Spec.Versions[1].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: root}
		}
	}
	lookUp := func() *spec.Schema {
		t.Helper()
		info, served, err := kinds.Lookup(t.Context(), gizmo)
		if err != nil || !served || info.Schema == nil {
			t.Fatalf("looked up %+v, %t, %v", info, served, err)
		}
		return info.Schema
	}
	observe(kinds, gizmoCRD(withFields("a")))
	first := lookUp()
	observe(kinds, gizmoCRD(withFields("a"), func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations = map[string]string{"changed": "yes"} }))
	if lookUp() != first {
		t.Error("an equal schema is another one")
	}
	observe(kinds, gizmoCRD(withFields("a", "b")))
	if changed := lookUp(); changed == first || len(changed.Properties) != 2 {
		t.Errorf("after a change, the schema is %+v", changed)
	}
	if known, _ := kinds.CRD(gizmo.GroupKind()); known.Spec.Versions[1].Schema != nil {
		t.Error("the schema is kept decoded")
	}
	if whole, _ := kinds.WholeCRD(gizmo.GroupKind()); len(whole.Spec.Versions[1].Schema.OpenAPIV3Schema.Properties) != 2 {
		t.Errorf("the whole definition has the schema %+v", whole.Spec.Versions[1].Schema)
	}
}

// TestACRDDecidesAboutItsOwnVersionsOnly: a CustomResourceDefinition of version v9 of a built-in kind says nothing of the built-in
// versions, while it exists and afterwards.
func TestACRDDecidesAboutItsOwnVersionsOnly(t *testing.T) {
	const group = "rbac.authorization.k8s.io"
	kind := schema.GroupKind{Group: group, Kind: "Gizmo"}
	v1, v9 := kind.WithVersion("v1"), kind.WithVersion("v9")
	shadow := gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Name, c.Spec.Group = "gizmos."+group, group
		c.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v9", Served: true, Storage: true}}
	})
	for name, groupsAreWatched := range map[string]bool{"APIServices are watched": true, "APIServices cannot be watched": false} {
		t.Run(name, func(t *testing.T) {
			kinds := kube.NewKinds(server{groups: []metav1.APIGroup{{Name: group, Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}}}}})
			if groupsAreWatched {
				kinds.SetGroupsComplete(true)
				kinds.ObserveGroup(v1.GroupVersion(), kube.BuiltIn)
				kinds.ObserveGroup(v9.GroupVersion(), kube.CustomResources)
			}
			served := func(when string, gvk schema.GroupVersionKind, want bool) {
				t.Helper()
				if _, err := kinds.Resolve(t.Context(), gvk); (err == nil) != want || err != nil && !kube.IsNoKindMatch(err) {
					t.Errorf("%s, %s: got %v", when, gvk.Version, err)
				}
			}
			served("before", v1, true)
			observe(kinds, shadow)
			served("while the CustomResourceDefinition exists", v1, true)
			served("while the CustomResourceDefinition exists", v9, true)
			if info, known, err := kinds.Lookup(t.Context(), v1); err != nil || !known || info.Revision != "" {
				t.Errorf("the built-in kind has the schema of the CustomResourceDefinition: %+v, %t, %v", info, known, err)
			}
			if got, err := kinds.Preferred(t.Context(), kind); groupsAreWatched && (err != nil || got != v1) {
				t.Errorf("preferred is %s, %v", got.Version, err)
			}
			kinds.ForgetCRD(shadow)
			served("after its deletion", v1, true)
			served("after its deletion", v9, false)
			if got, availability, err := kinds.Availability(t.Context(), kind); err != nil || availability != kube.Served || got != v1 {
				t.Errorf("after its deletion: %s is %s, %v", got.Version, availability, err)
			}
			if !kinds.MayBeBuiltIn(group) || kinds.MayBeBuiltIn("example.com") {
				t.Error("the deletion of the CustomResourceDefinition ends the built-in kind")
			}
		})
	}
}

// TestADeletedKindIsLookedUpAgain where no event says that another server serves it.
func TestADeletedKindIsLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := kube.NewKinds(server{})
		observe(kinds, gizmoCRD())
		kinds.ForgetCRD(gizmoCRD())
		if _, err := kinds.Resolve(t.Context(), gizmo); !kube.IsNoKindMatch(err) {
			t.Errorf("while discovery lags: got %v", err)
		}
		<-time.After(time.Minute)
		if _, err := kinds.Resolve(t.Context(), gizmo); err != nil {
			t.Errorf("once discovery has caught up: got %v", err)
		}
		observe(kinds, gizmoCRD())
		kinds.ForgetCRD(gizmoCRD())
		if _, err := kinds.Resolve(t.Context(), gizmo); !kube.IsNoKindMatch(err) {
			t.Errorf("after the next deletion: got %v", err)
		}
	})
}
