package serving

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestNewKindsAreRefused(t *testing.T) {
	kinds := kube.NewKinds(nil)
	kinds.ObserveGroup(schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}, kube.Aggregated)
	kinds.ObserveGroup(schema.GroupVersion{Group: "example.com", Version: "v1"}, kube.CustomResources)
	for i, namespace := range []string{"team-a", "team-a", "team-b", ""} {
		c := &apiextensionsv1.CustomResourceDefinition{}
		c.Name = fmt.Sprintf("kind%ds.example.com", i)
		c.Labels = crd.Labels(object.Definition{Name: "definition", Namespace: namespace}, "v1")
		c.Spec.Group, c.Spec.Names.Kind = "example.com", fmt.Sprintf("Kind%d", i)
		kinds.ObserveCRD(crd.Keep(c))
	}
	cases := map[string]struct {
		group, namespace string
		limit            int
		reason           Reason
		message          string
	}{
		"a group of CustomResourceDefinitions": {"example.com", "team-b", 2, "", ""},
		"a group that nobody serves yet":       {"new.example.com", "team-b", 2, "", ""},
		"a group of an aggregated API server":  {"metrics.example.com", "", 0, NotOwned, "APIService v1.metrics.example.com"},
		"a group of Kubernetes":                {"gateway.networking.k8s.io", "", 0, NotOwned, "belongs to Kubernetes"},
		"a namespace at its limit":             {"example.com", "team-a", 2, TooManyKinds, "namespace team-a define 2 kinds, and resourceGroups.maxKinds is 2"},
		"no limit":                             {"example.com", "team-a", 0, "", ""},
		"a cluster-scoped definition":          {"example.com", "", 1, "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Reconciler{Config: Config{Kinds: kinds, MaxKindsPerNamespace: tc.limit}}
			wanted := &apiextensionsv1.CustomResourceDefinition{}
			wanted.Spec.Group = tc.group
			got, refused := r.refusesNew(object.Key{Namespace: tc.namespace, Name: "new"}, wanted)
			if refused != (tc.reason != "") || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %t, %+v", refused, got)
			}
		})
	}
}
