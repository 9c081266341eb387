package reader

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNearestKind(t *testing.T) {
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}, {Name: "pods/status", Kind: "Pod"}}},
		{GroupVersion: "kro.run/v1alpha1", APIResources: []metav1.APIResource{{Name: "webapps", Kind: "WebApp"}}},
	}
	cases := map[string]struct{ written, want string }{
		"A kind with a typing error":   {"webap", "webapp"},
		"In capitals":                  {"WebAp", "webapp"},
		"A plural with a typing error": {"configmps", "configmaps"},
		"A kind with a group":          {"webap.kro.run", "webapp.kro.run"},
		"A kind of the core group":     {"confgmap", "configmap"},
		"The kind of a subresource":    {"pod", ""},
		"A kind that resembles none":   {"unicorn", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := nearestKind(tc.written, flatten(lists)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAlternativesOfAKind(t *testing.T) {
	verbs := metav1.Verbs{"get", "list", "watch"}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "services", Kind: "Service", Verbs: verbs}, {Name: "pods", Kind: "Pod", Verbs: verbs}, {Name: "pods/status", Kind: "Pod", Verbs: verbs}}},
		{GroupVersion: "metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}}}},
		{GroupVersion: "rbac.authorization.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "roles", Kind: "Role", Verbs: verbs}}},
		{GroupVersion: "iam.example.org/v2", APIResources: []metav1.APIResource{{Name: "roles", Kind: "Role", ShortNames: []string{"ro"}, Verbs: verbs}}},
		{GroupVersion: "iam.example.org/v1", APIResources: []metav1.APIResource{{Name: "roles", Kind: "Role", ShortNames: []string{"ro"}, Verbs: verbs}}},
		{GroupVersion: "boats.example.org/v1", APIResources: []metav1.APIResource{{Name: "rowers", SingularName: "rower", Kind: "BoatRower", ShortNames: []string{"ro"}, Verbs: verbs}}},
	}
	rbac, iam := schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"}, schema.GroupResource{Group: "iam.example.org", Resource: "roles"}
	cases := map[string]struct {
		written string
		taken   schema.GroupResource
		want    []string
	}{
		"A kind of two groups":                      {"Role", rbac, []string{"role.iam.example.org"}},
		"A plural of two groups":                    {"roles", iam, []string{"roles.rbac.authorization.k8s.io"}},
		"A short name of two kinds":                 {"ro", iam, []string{"rowers.boats.example.org"}},
		"A singular of one":                         {"rower", schema.GroupResource{Group: "boats.example.org", Resource: "rowers"}, nil},
		"With a group":                              {"role.rbac.authorization.k8s.io", rbac, nil},
		"A resource that cannot be watched besides": {"pods", schema.GroupResource{Resource: "pods"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := alternatives(tc.written, tc.taken, flatten(lists)); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
