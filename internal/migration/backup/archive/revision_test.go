package archive_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
)

func TestTheServingRevisionIsExported(t *testing.T) {
	definition := func(status map[string]any, annotation string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": map[string]any{"name": "box"}}}
		if status != nil {
			o.Object["status"] = status
		}
		if annotation != "" {
			o.SetAnnotations(map[string]string{v1alpha1.ServedAnnotation: annotation})
		}
		return o
	}
	cases := map[string]struct {
		reason string
		in     *unstructured.Unstructured
		want   string
	}{
		"a status": {"after an import the newest revision would be rolled out at once", definition(map[string]any{
			"state": "Active", "conditions": []any{}, "lastIssuedRevision": int64(3), "servingRevision": int64(2),
			"rollout": map[string]any{"revision": int64(3), "wave": int64(1)},
		}, ""), `{"lastIssuedRevision":3,"rollout":{"revision":3,"wave":1},"servingRevision":2}`},
		"an annotation of an earlier import": {"it was not reconciled yet", definition(nil, `{"servingRevision":2}`), `{"servingRevision":2}`},
		"an annotation and a status":         {"the status is newer", definition(map[string]any{"servingRevision": int64(5)}, `{"servingRevision":2}`), `{"servingRevision":5}`},
		"neither":                            {"the definition was not reconciled yet", definition(nil, ""), ""},
	}
	for name, tc := range cases {
		out := archive.Strip(tc.in)
		if got := out.GetAnnotations()[v1alpha1.ServedAnnotation]; got != tc.want {
			t.Errorf("%s: %s: got %s", name, tc.reason, got)
		}
		if _, has := out.Object["status"]; has {
			t.Errorf("%s: the status is exported", name)
		}
	}
}

func TestDefinitionOfARevision(t *testing.T) {
	revision := func(snapshot map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"snapshot": snapshot}}}
	}
	for want, snapshot := range map[string]map[string]any{
		"ResourceGraphDefinition box": {"name": "box"}, "ResourceGroup team/box": {"name": "box", "namespace": "team"},
	} {
		if got := archive.DefinitionOf(revision(snapshot)).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
