package install

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

func TestRecordTakeover(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 500, time.UTC)
	of := func(annotations map[string]string) *apiextensionsv1.CustomResourceDefinition {
		c := &apiextensionsv1.CustomResourceDefinition{}
		c.Annotations = annotations
		return c
	}
	for name, tc := range map[string]struct {
		current *apiextensionsv1.CustomResourceDefinition
		want    string
	}{
		"a new kind is nobody else's":          {nil, ""},
		"a kind of ours was never another's":   {of(map[string]string{v1alpha1.AppliedAnnotation: "a"}), ""},
		"another engine's is taken over now":   {of(nil), "2026-08-01T12:00:01Z"},
		"the time of a former takeover stays":  {of(map[string]string{v1alpha1.AppliedAnnotation: "a", v1alpha1.TakenOverAnnotation: "2026-01-01T00:00:00Z"}), "2026-01-01T00:00:00Z"},
		"a second takeover is another's again": {of(map[string]string{v1alpha1.TakenOverAnnotation: "2026-01-01T00:00:00Z"}), "2026-08-01T12:00:01Z"},
	} {
		wanted := of(nil)
		RecordTakeover(wanted, tc.current, now)
		if got := wanted.Annotations[v1alpha1.TakenOverAnnotation]; got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
