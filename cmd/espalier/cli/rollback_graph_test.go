package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

func TestPlanARollbackOfAGraph(t *testing.T) {
	spec := func(content string) map[string]any { return map[string]any{"nodes": []any{content}} }
	for name, tc := range map[string]struct {
		// recorded are the contents of the revisions from 3 on, and current is that of the Graph.
		recorded []string
		current  string
		to       int64
		want     string
	}{
		"to the previous one by default":       {[]string{"a", "b"}, "b", 0, "rolls back from revision 4 to 3"},
		"to the given one":                     {[]string{"a", "b", "c"}, "c", 3, "rolls back from revision 5 to 3"},
		"after a rollback, forth again":        {[]string{"a", "b", "a"}, "a", 0, "rolls back from revision 5 to 4"},
		"an invalid spec, which has none":      {[]string{"a", "b"}, "typo", 0, "rolls back to revision 4"},
		"the given one has the spec":           {[]string{"a", "b"}, "b", 4, "has the spec of revision 4"},
		"one of several with the spec":         {[]string{"a", "b", "a"}, "a", 3, "has the spec of revision 3"},
		"the given one does not exist":         {[]string{"a", "b"}, "b", 2, "there is no revision 2; there are 3, 4"},
		"there is none before":                 {[]string{"a"}, "a", 0, "there is no revision before 3"},
		"the option is not set, or not served": {nil, "a", 0, "it has no revision; with spec.revisionHistoryLimit, each accepted spec is kept"},
	} {
		var revisions []any
		for i, content := range tc.recorded {
			revisions = append(revisions, map[string]any{"revision": int64(i + 3), "digest": object.Digest(spec(content))})
		}
		current := spec(tc.current)
		current["revisionHistoryLimit"] = int64(5)
		plan, err := planGraphRollback(&unstructured.Unstructured{Object: map[string]any{"spec": current, "status": map[string]any{"revisions": revisions}}}, tc.to)
		got := plan.String()
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
