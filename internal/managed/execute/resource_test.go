package execute

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWhenAManagedResourceHasChanged(t *testing.T) {
	const created, synced, ready = "2026-01-02T00:00:00Z", "2026-01-02T01:00:00Z", "2026-01-02T02:00:00Z"
	condition := func(name, at string, generation int64) any {
		return map[string]any{"type": name, "lastTransitionTime": at, "observedGeneration": generation}
	}
	cases := map[string]struct {
		conditions []any
		want       string
	}{
		"at its creation":                             {nil, created},
		"when Synced changed":                         {[]any{condition("Synced", synced, 2)}, synced},
		"when Ready changed later":                    {[]any{condition("Ready", ready, 2), condition("Synced", synced, 2)}, ready},
		"when Ready changed earlier":                  {[]any{condition("Ready", synced, 2), condition("Synced", ready, 2)}, ready},
		"now, since its generation was not reported":  {[]any{condition("Ready", ready, 2), condition("Synced", synced, 1)}, ""},
		"not by a Ready of a former generation":       {[]any{condition("Ready", synced, 1), condition("Synced", ready, 2)}, ready},
		"not by another condition":                    {[]any{condition("Other", ready, 2), condition("Synced", synced, 2)}, synced},
		"at its creation, without a time that parses": {[]any{condition("Synced", "then", 2)}, created},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"creationTimestamp": created, "generation": int64(2)},
				"status":   map[string]any{"conditions": tc.conditions},
			}}
			var want time.Time
			if tc.want != "" {
				want, _ = time.Parse(time.RFC3339, tc.want)
			}
			if got := changedAt(o); !got.Equal(want) {
				t.Errorf("it changed at %s, not %s", got, want)
			}
		})
	}
}
