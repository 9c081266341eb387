package definition

import (
	"strings"
	"testing"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// crdOf is a CustomResourceDefinition with these versions, of which the last one is stored.
func crdOf(stored []string, versions ...string) *extv1.CustomResourceDefinition {
	out := &extv1.CustomResourceDefinition{Status: extv1.CustomResourceDefinitionStatus{StoredVersions: stored}}
	out.Name = "apps.example.org"
	for i, name := range versions {
		out.Spec.Versions = append(out.Spec.Versions, extv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: i == len(versions)-1})
	}
	return out
}

func TestAVersionIsRemovedOnceNothingIsStoredInIt(t *testing.T) {
	both := []string{"v1alpha1", "v1"}
	cases := map[string]struct {
		reason          string
		current, wanted *extv1.CustomResourceDefinition
		notRewritten    string
		waits, unknown  bool
		message         string
	}{
		"There is none yet":        {"nothing is stored", nil, crdOf(nil, "v1"), "", false, false, ""},
		"The version is kept":      {"nothing is removed", crdOf(both, both...), crdOf(nil, both...), "", false, false, ""},
		"All have been rewritten":  {"it is stored nowhere", crdOf([]string{"v1"}, both...), crdOf(nil, "v1"), "", false, false, ""},
		"They are being rewritten": {"it passes", crdOf(both, both...), crdOf(nil, "v1"), "", true, true, "v1alpha1 (status.storedVersions of CustomResourceDefinition apps.example.org). They are being rewritten"},
		"One cannot be rewritten":  {"somebody must act", crdOf(both, both...), crdOf(nil, "v1"), "1 of 3 instances cannot be rewritten", true, false, "1 of 3 instances cannot be rewritten. The version"},
		"It is replaced in one step": {"nothing can be rewritten in a version that is not served", crdOf([]string{"v1alpha1"}, "v1alpha1"), crdOf(nil, "v1"), "", true, false,
			"List it in spec.versions until they are rewritten, which starts once version v1 is referenceable"},
	}
	for name, tc := range cases {
		got, waits := awaitsMigration(tc.current, tc.wanted, tc.notRewritten)
		if waits != tc.waits || got.Unknown != tc.unknown || !strings.Contains(got.Message, tc.message) || got.Ready {
			t.Errorf("%s: %s; got %v %+v", name, tc.reason, waits, got)
		}
	}
}
