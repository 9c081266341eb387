package kube_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
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
		"The same again is no news":    {"a relist tells it", func(*apiextensionsv1.CustomResourceDefinition) {}, kube.CRDUnchanged},
		"Another resource version not": {"a status heartbeat", func(c *apiextensionsv1.CustomResourceDefinition) { c.ResourceVersion = "9" }, kube.CRDUnchanged},
		"Another generation is":        {"its schema may have changed", func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation = 2 }, kube.CRDSpecChanged},
		"Another incarnation is":       {"it may be another altogether", func(c *apiextensionsv1.CustomResourceDefinition) { c.UID = types.UID("c-2") }, kube.CRDSpecChanged},
		"No longer established is":     {"the kind isn't served", establish(apiextensionsv1.ConditionFalse), kube.CRDSpecChanged},
		"Another controls it is a remark": {"whose it is has changed", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "d-1", Controller: new(true)}}
		}, kube.CRDStatusChanged},
		"A definition's own now is": {"its objects are instances", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{v1alpha1.OwnedLabel: "true"}
		}, kube.CRDSpecChanged},
		"What the API server says of its names is worth a remark": {"a definition tells of it", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = append(c.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Message: "taken"})
		}, kube.CRDStatusChanged},
		"A rival's is not": {"the one that serves the kind counts", func(c *apiextensionsv1.CustomResourceDefinition) { c.Name = "others.example.com" }, kube.CRDUnchanged},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kinds := kube.NewKinds(nil)
			if kinds.ObserveCRD(gizmoCRD()) != kube.CRDSpecChanged {
				t.Fatal("the first is no news")
			}
			if got := kinds.ObserveCRD(gizmoCRD(tc.change)); got != tc.want {
				t.Errorf("%s: got %d", tc.reason, got)
			}
		})
	}
}

func TestKindsOfCRDsCostNoRequest(t *testing.T) {
	kinds := kube.NewKinds(nil) // without anybody to ask
	kinds.ObserveCRD(gizmoCRD())
	r, err := kinds.Resolve(t.Context(), gizmo)
	if err != nil || !r.Namespaced || r.GVR != (schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gizmos"}) {
		t.Errorf("got %v, %v", r, err)
	}
	if got, err := kinds.Preferred(t.Context(), gizmo.GroupKind()); err != nil || got != gizmo {
		t.Errorf("of several versions the one that is stored: got %v, %v", got, err)
	}
	for _, version := range []string{"v0", "v2"} {
		if _, err := kinds.Resolve(t.Context(), gizmo.GroupKind().WithVersion(version)); !kube.IsNoKindMatch(err) {
			t.Errorf("%s isn't served: got %v", version, err)
		}
	}
	kinds.ObserveCRD(gizmoCRD(establish(apiextensionsv1.ConditionFalse), func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation = 2 }))
	if _, err := kinds.Resolve(t.Context(), gizmo); !kube.IsNoKindMatch(err) {
		t.Errorf("what isn't established isn't served: got %v", err)
	}
}

func TestLookup(t *testing.T) {
	kinds := kube.NewKinds(nil)
	kinds.ObserveCRD(gizmoCRD())
	before, known, err := kinds.Lookup(t.Context(), gizmo)
	if err != nil || !known || !before.Namespaced || before.ServedByDefinition || before.Schema == nil || before.NameRule != object.Subdomain {
		t.Errorf("got %+v, %t", before, known)
	}
	if untyped, known, _ := kinds.Lookup(t.Context(), gizmo.GroupKind().WithVersion("v1beta1")); !known || untyped.Schema != nil {
		t.Errorf("a version without a schema is untyped: got %+v, %t", untyped, known)
	}
	kinds.ObserveCRD(gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Generation, c.Labels = 2, map[string]string{v1alpha1.OwnedLabel: "true"}
	}))
	after, _, _ := kinds.Lookup(t.Context(), gizmo)
	if !after.ServedByDefinition || after.Revision == before.Revision {
		t.Errorf("before %+v, after %+v", before, after)
	}
	rival := gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) { c.Name = "others.example.com" })
	if kinds.ForgetCRD(rival) {
		t.Error("a rival's end is the kind's")
	}
	if _, known := kinds.CRD(gizmo.GroupKind()); !known {
		t.Error("a rival's end has ended the kind")
	}
	if !kinds.ForgetCRD(gizmoCRD()) {
		t.Error("the deletion of the kind is not reported")
	}
	if _, known := kinds.CRD(gizmo.GroupKind()); known {
		t.Error("what is gone is still known")
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
	if kinds.ObserveCRD(at("10", unestablished)) != kube.CRDUnchanged {
		t.Error("its event is no news")
	}
	if kinds.ObserveCRD(at("11")) != kube.CRDSpecChanged || known(kinds) != "11" {
		t.Error("what comes after it is")
	}

	kinds.RecordCRD(at("20", unestablished))
	if kinds.ObserveCRD(at("15")) != kube.CRDUnchanged || known(kinds) != "20" {
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
		kinds.ObserveCRD(gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) {
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

func TestAKindIsNotGoneIfDiscoveryFails(t *testing.T) {
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
			_, err := kube.NewKinds(tc.server).Preferred(t.Context(), tc.ask)
			if (err == nil) != tc.found || kube.IsNoKindMatch(err) != tc.gone {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, known, err := kube.NewKinds(server{err: down}).Lookup(t.Context(), gizmo); known || err == nil {
		t.Errorf("what couldn't be looked up: got %t, %v", known, err)
	}
}

// counting counts what it is asked.
type counting struct {
	server
	asked *int
}

func (c counting) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	*c.asked++
	return c.server.ServerResourcesForGroupVersion(gv)
}

func (c counting) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	*c.asked++
	return c.server.GroupsAndMaybeResources()
}

func TestAMissingKindIsCached(t *testing.T) {
	other := gizmo.GroupVersion().WithKind("Other")
	cases := map[string]struct {
		reason string
		before func(*kube.Kinds)
		asked  int
		found  bool // a Gizmo; the server doesn't have an Other in any case
	}{
		"a server that tells nothing":          {"an answer is believed for a while", func(*kube.Kinds) {}, 2, true},
		"a group that it is known not to have": {"an event would tell", func(k *kube.Kinds) { k.SetGroupsComplete(true) }, 0, false},
		"a group that it has": {"an event would tell", func(k *kube.Kinds) {
			k.SetGroupsComplete(true)
			k.ObserveGroup(gizmo.GroupVersion(), kube.CustomResources)
		}, 2, true},
		"a group that another server has": {"it may have kinds of its own", func(k *kube.Kinds) { k.SetGroupsComplete(true); k.ObserveGroup(gizmo.GroupVersion(), kube.Aggregated) }, 2, true},
		"a group that it no longer has": {"what was known of it isn't so any more", func(k *kube.Kinds) {
			k.SetGroupsComplete(true)
			k.ObserveGroup(gizmo.GroupVersion(), kube.CustomResources)
			k.ForgetGroup(gizmo.GroupVersion())
		}, 0, false},
		"a definition that is gone": {"discovery lags", func(k *kube.Kinds) {
			k.SetGroupsComplete(true)
			k.ObserveGroup(gizmo.GroupVersion(), kube.CustomResources)
			k.ObserveCRD(gizmoCRD())
			k.ForgetCRD(gizmoCRD())
		}, 1, false},
		"a definition that another server has now": {"a kind may move to an aggregated API", func(k *kube.Kinds) {
			k.SetGroupsComplete(true)
			k.ObserveCRD(gizmoCRD())
			k.ForgetCRD(gizmoCRD())
			k.ObserveGroup(gizmo.GroupVersion(), kube.Aggregated)
		}, 2, true},
		"a definition's group that is gone as a whole": {"no server serves it", func(k *kube.Kinds) { k.SetGroupsComplete(true); k.ObserveCRD(gizmoCRD()); k.ForgetCRD(gizmoCRD()) }, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			asked := 0
			kinds := kube.NewKinds(counting{server{}, &asked})
			tc.before(kinds)
			for range 100 {
				if _, err := kinds.Resolve(t.Context(), gizmo); (err == nil) != tc.found || err != nil && !kube.IsNoKindMatch(err) {
					t.Fatalf("%s: got %v", tc.reason, err)
				}
				if _, err := kinds.Resolve(t.Context(), other); !kube.IsNoKindMatch(err) {
					t.Fatalf("there is no Other: got %v", err)
				}
			}
			if asked != tc.asked {
				t.Errorf("%s: the server was asked %d times, want %d", tc.reason, asked, tc.asked)
			}
		})
	}
}

func TestObserveGroup(t *testing.T) {
	kinds := kube.NewKinds(nil)
	for i, event := range []struct {
		reason string
		by     kube.Server
		news   bool
	}{
		{"it wasn't known", kube.CustomResources, true},
		{"the API server's own kinds don't change with it", kube.CustomResources, false},
		{"another server has it now", kube.Aggregated, true},
		{"that server may have other kinds by now", kube.Aggregated, true},
		{"the API server has it again", kube.CustomResources, true},
		{"another release of it is built with it", kube.BuiltIn, true},
		{"what it is built with doesn't change", kube.BuiltIn, false},
	} {
		if got := kinds.ObserveGroup(gizmo.GroupVersion(), event.by); got != event.news {
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
		"Registered at its start": {"it is built with it", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
		}, kube.BuiltIn},
		"Registered for CustomResourceDefinitions": {"more may come", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"kube-aggregator.kubernetes.io/automanaged": "true"}},
		}, kube.CustomResources},
		"Registered without a label": {"nothing says that no more come", map[string]any{}, kube.CustomResources},
		"Registered for an aggregated API server": {"whatever its labels say", map[string]any{
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
		"A group that isn't there is":                    {server{}, nil, kube.Gone, false},
		"One that is there and not listed yet isn't":     {server{}, []schema.GroupVersion{gizmo.GroupVersion()}, kube.Served, false},
		"One whose server is down can't be told":         {server{err: down}, []schema.GroupVersion{gizmo.GroupVersion()}, "", true},
		"Of several versions the most stable one counts": {server{}, []schema.GroupVersion{{Group: gizmo.Group, Version: "v2beta1"}, gizmo.GroupVersion(), {Group: gizmo.Group, Version: "v1alpha1"}}, kube.Served, false},
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

// TestAnAnswerFromAnEarlierEpochIsNotCached has a version of a group come
// while the server is being asked for it.
func TestAnAnswerFromAnEarlierEpochIsNotCached(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	kinds := kube.NewKinds(slow{asked: asked, answer: answer})
	first := make(chan error)
	go func() {
		_, err := kinds.Resolve(context.Background(), gizmo)
		first <- err
	}()
	<-asked
	kinds.SetGroupsComplete(true)
	kinds.ObserveGroup(gizmo.GroupVersion(), kube.CustomResources)
	second := make(chan error)
	go func() {
		_, err := kinds.Resolve(context.Background(), gizmo)
		second <- err
	}()
	<-asked // again: it doesn't share the first's answer
	close(answer)
	if err := <-first; !kube.IsNoKindMatch(err) {
		t.Errorf("before: got %v", err)
	}
	if err := <-second; !kube.IsNoKindMatch(err) {
		t.Errorf("during: got %v", err)
	}
}

// slow answers that there is nothing, on request.
type slow struct {
	server
	asked, answer chan struct{}
}

func (s slow) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	s.asked <- struct{}{}
	<-s.answer
	return &metav1.APIResourceList{}, nil
}

func TestHangingDiscoveryRespectsTheContext(t *testing.T) {
	hanging := make(chan struct{})
	defer close(hanging)
	kinds := kube.NewKinds(stuck{until: hanging})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := kinds.Resolve(ctx, gizmo); !errors.Is(err, enough) {
		t.Errorf("resolving: got %v", err)
	}
	if _, _, err := kinds.Availability(ctx, gizmo.GroupKind()); !errors.Is(err, enough) {
		t.Errorf("what has become of it: got %v", err)
	}
	if _, _, err := kinds.Lookup(ctx, gizmo); !errors.Is(err, enough) {
		t.Errorf("looking it up: got %v", err)
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
	kinds.ObserveCRD(gizmoCRD())
	kinds.ForgetCRD(gizmoCRD())
	if _, err := kinds.Resolve(t.Context(), gizmo); !kube.IsNoKindMatch(err) {
		t.Errorf("discovery lags, and its earlier answer is no longer true: got %v", err)
	}
	if _, err := kinds.Preferred(t.Context(), gizmo.GroupKind()); !kube.IsNoKindMatch(err) {
		t.Errorf("nor is its version known: got %v", err)
	}
	kinds.ObserveCRD(gizmoCRD())
	if _, err := kinds.Resolve(t.Context(), gizmo); err != nil {
		t.Errorf("it is back: got %v", err)
	}
}
