package archive_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/backup/archive"
)

func TestWhatServesIsKept(t *testing.T) {
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
		"What can't be found out again is": {"the newest would reach all at once", definition(map[string]any{
			"state": "Active", "conditions": []any{}, "lastIssuedRevision": int64(3), "servingRevision": int64(2),
			"rollout": map[string]any{"revision": int64(3), "wave": int64(1)},
		}, ""), `{"lastIssuedRevision":3,"rollout":{"revision":3,"wave":1},"servingRevision":2}`},
		"What an earlier import has brought, and nobody has looked at, is": {"it is still so", definition(nil, `{"servingRevision":2}`), `{"servingRevision":2}`},
		"What it has brought and isn't so any more isn't":                  {"the status knows better", definition(map[string]any{"servingRevision": int64(5)}, `{"servingRevision":2}`), `{"servingRevision":5}`},
		"One that has said nothing yet has nothing to keep":                {"nothing is made up", definition(nil, ""), ""},
	}
	for name, tc := range cases {
		out := archive.Strip(tc.in)
		if got := out.GetAnnotations()[v1alpha1.ServedAnnotation]; got != tc.want {
			t.Errorf("%s: %s: got %s", name, tc.reason, got)
		}
		if _, there := out.Object["status"]; there {
			t.Errorf("%s: the rest of its status is exported", name)
		}
	}
}

func TestWhoseARevisionIs(t *testing.T) {
	revision := func(snapshot map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"snapshot": snapshot}}}
	}
	for want, snapshot := range map[string]map[string]any{
		"ResourceGraphDefinition box": {"name": "box"}, "ResourceGroup team/box": {"name": "box", "namespace": "team"},
	} {
		if got := archive.DefinitionOf(revision(snapshot)).String(); got != want {
			t.Errorf("got %s, not %s", got, want)
		}
	}
}
