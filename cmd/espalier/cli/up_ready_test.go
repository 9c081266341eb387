package cli

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAllKindsAreDiscovered(t *testing.T) {
	crd := func(plural string, accepted apiextensionsv1.ConditionStatus, versions ...apiextensionsv1.CustomResourceDefinitionVersion) apiextensionsv1.CustomResourceDefinition {
		return apiextensionsv1.CustomResourceDefinition{
			Spec:   apiextensionsv1.CustomResourceDefinitionSpec{Group: "kro.run", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural}, Versions: versions},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.NamesAccepted, Status: accepted}}},
		}
	}
	v1, v2 := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Served: true}, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Served: true}
	lists := []*metav1.APIResourceList{{GroupVersion: "kro.run/v1", APIResources: []metav1.APIResource{{Name: "shops"}, {Name: "shops/status"}}}}
	for name, tc := range map[string]struct {
		crd  apiextensionsv1.CustomResourceDefinition
		want bool
	}{
		"a kind that is listed":        {crd("shops", "True", v1), true},
		"a kind that is not":           {crd("sites", "True", v1), false},
		"a kind that was just created": {crd("sites", "Unknown", v1), false},
		"a version that is not":        {crd("shops", "True", v1, v2), false},
		"a version that is not served": {crd("shops", "True", v1, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2"}), true},
		"a kind whose names conflict":  {crd("sites", "False", v1), true},
	} {
		if got := areDiscovered([]apiextensionsv1.CustomResourceDefinition{tc.crd}, lists); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
