package kube_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
)

// listing is a server that lists kinds of one version, and parts of them.
type listing struct {
	server
	kinds []string
}

func (l listing) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	out := &metav1.APIResourceList{}
	for _, kind := range l.kinds {
		out.APIResources = append(out.APIResources, metav1.APIResource{Name: kind + "s", Kind: kind}, metav1.APIResource{Name: kind + "s/status", Kind: "PartOf" + kind})
	}
	return out, l.err
}

func TestOnlyKindsOfBuiltInVersionsAreNeverServed(t *testing.T) {
	observed := func(by kube.Server) func(*kube.Kinds) {
		return func(k *kube.Kinds) { k.SetGroupsComplete(true); k.ObserveGroup(gizmo.GroupVersion(), by) }
	}
	cases := map[string]struct {
		reason string
		before func(*kube.Kinds)
		absent bool
	}{
		"the version is built in": {"only an upgrade of the API server adds kinds", observed(kube.BuiltIn), true},
		"the version has CustomResourceDefinitions": {"a new one may define the kind", func(k *kube.Kinds) {
			observed(kube.CustomResources)(k)
			observe(k, gizmoCRD(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Kind = "Gadget" }))
		}, false},
		"an aggregated server has it":     {"it may add the kind at any time", observed(kube.Aggregated), false},
		"APIServices are unknown":         {"APIServices may not be read", func(*kube.Kinds) {}, false},
		"the version does not exist":      {"it may be added", func(k *kube.Kinds) { k.SetGroupsComplete(true) }, false},
		"the version was built in before": {"an aggregated server serves it now", func(k *kube.Kinds) { observed(kube.BuiltIn)(k); observed(kube.Aggregated)(k) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kinds := kube.NewKinds(listing{kinds: []string{"Widget", "Gadget"}})
			tc.before(kinds)
			for range 3 { // also from memory
				got, known, err := kinds.Lookup(t.Context(), gizmo)
				if err != nil || known || got.NeverServed != tc.absent {
					t.Fatalf("%s: got %+v, %t, %v", tc.reason, got, known, err)
				}
				if tc.absent {
					if diff := cmp.Diff([]string{"Gadget", "Widget"}, got.Siblings); diff != "" {
						t.Error(diff)
					}
				}
			}
			kinds.ObserveGroup(gizmo.GroupVersion(), kube.BuiltIn)
			if got, _, err := kinds.Lookup(t.Context(), gizmo); err != nil || !got.NeverServed {
				t.Errorf("the version is built in now: got %+v, %v", got, err)
			}
		})
	}
}

func TestABuiltInKindMayComeWithAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := &listing{kinds: []string{"Widget"}}
		kinds := kube.NewKinds(is)
		kinds.ObserveGroup(gizmo.GroupVersion(), kube.BuiltIn)
		if got, _, err := kinds.Lookup(t.Context(), gizmo); err != nil || !got.NeverServed {
			t.Fatalf("got %+v, %v", got, err)
		}
		is.kinds = append(is.kinds, "Gizmo")
		<-time.After(kube.BuiltInCacheTTL)
		if r, err := kinds.Resolve(t.Context(), gizmo); err != nil || r.GVR.Resource != "Gizmos" {
			t.Errorf("got %v, %v", r, err)
		}
	})
}

// TestAVersionThatIsServedIsNotGoneIfItIsNotFound has discovery that is answered with 404: by the API server for a version that
// does not exist, and also by a gateway that does not reach the API server.
func TestAVersionThatIsServedIsNotGoneIfItIsNotFound(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		by     kube.Server
		gone   bool
	}{
		"the version is built in":                   {"it has kinds as long as the API server runs", kube.BuiltIn, false},
		"an aggregated server has it":               {"its APIService says so", kube.Aggregated, false},
		"the version has CustomResourceDefinitions": {"its APIService stays for a moment after the last of them", kube.CustomResources, true},
	} {
		t.Run(name, func(t *testing.T) {
			is := &listing{kinds: []string{"Gizmo"}, server: server{err: apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true)}}
			kinds := kube.NewKinds(is)
			kinds.SetGroupsComplete(true)
			kinds.ObserveGroup(gizmo.GroupVersion(), tc.by)
			if _, err := kinds.Resolve(t.Context(), gizmo); err == nil || kube.IsNoKindMatch(err) != tc.gone || kube.IsStale(err) {
				t.Errorf("%s: resolved with %v", tc.reason, err)
			}
			_, availability, err := kinds.Availability(t.Context(), gizmo.GroupKind())
			if (availability == kube.Gone) != tc.gone {
				t.Errorf("%s: availability %q, %v", tc.reason, availability, err)
			}
			if is.err = nil; tc.gone {
				return
			}
			if _, availability, err = kinds.Availability(t.Context(), gizmo.GroupKind()); availability != kube.Served {
				t.Errorf("once discovery is answered: %q, %v", availability, err)
			}
		})
	}
}
