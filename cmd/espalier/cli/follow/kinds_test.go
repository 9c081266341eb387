package follow

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			if got := nearestKind(tc.written, lists); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
