package definition

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestOtherOwner(t *testing.T) {
	of := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: crd.Labels(object.Definition{Name: name, Namespace: namespace, UID: "1"}, "test")}
	}
	cases := map[string]struct {
		reason string
		meta   metav1.ObjectMeta
		want   string
	}{
		"Its own":                   {"it may replace it", of("web", ""), ""},
		"Another definition's":      {"only that may replace it", of("other", ""), "is defined by ResourceGraphDefinition other already"},
		"A namespaced definition's": {"its name is the same by chance", of("web", "prod"), "is defined by ResourceGroup prod/web already"},
		"That of a definition that is gone": {
			"nobody else says that it only has to be deleted", of("former", ""),
			"remains from ResourceGraphDefinition former, which no longer exists: to define the kind again, delete it with all its instances",
		},
		"That of composites": {
			"the definition of composites is its controller",
			metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "apiextensions.crossplane.io/v1", Kind: "CompositeResourceDefinition", Name: "webs.example.org", Controller: new(true)}}},
			"is controlled by CompositeResourceDefinition webs.example.org",
		},
		"One that a user has created": {"nothing marks it as one of a definition", metav1.ObjectMeta{}, "exists already and is not from a definition"},
	}
	for name, tc := range cases {
		isGone := func(key object.Key) bool { return key.Name == "former" }
		got := otherOwner(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: tc.meta}, object.Definition{Name: "web", UID: "2"}, isGone)
		if got != tc.want {
			t.Errorf("%s: want %q, got %q, but %s", name, tc.want, got, tc.reason)
		}
	}
}
