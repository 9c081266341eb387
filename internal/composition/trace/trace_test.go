package trace_test

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/trace"
)

func TestItemsAreAlignedByTheirNames(t *testing.T) {
	item := func(name string) any { return map[string]any{"name": name} }
	live := map[string]any{"items": []any{item("sidecar"), item("web"), item("other")}, "texts": []any{"a", "b"}}
	desired := map[string]any{"items": []any{item("web")}, "texts": []any{"b"}}
	for name, tc := range map[string]struct{ path, want []any }{
		"an item with a name":                  {[]any{"items", 1, "name"}, []any{"items", 0, "name"}},
		"an item that is not desired":          {[]any{"items", 2}, []any{"items", 2}},
		"an item in the place of another one":  {[]any{"items", 0, "name"}, []any{"items", -1, "name"}},
		"an item without a name":               {[]any{"texts", 0}, []any{"texts", 0}},
		"an item that the object doesn't have": {[]any{"items", 7}, []any{"items", 7}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := trace.Aligned(desired, live, tc.path); fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("got %v, not %v", got, tc.want)
			}
		})
	}
}

func TestAStepThatDoesNotSayWhatItWrites(t *testing.T) {
	state := func(value any) trace.State {
		return trace.State{Composite: map[string]any{"status": map[string]any{"a": value}}}
	}
	steps := []trace.Step{
		{Name: "one", Before: trace.State{}, After: state("x")},
		{Name: "same", Before: state("x"), After: state("x")},
		{Name: "two", Before: state("x"), After: state("y")},
		{Name: "failed", Failed: "no", Before: state("y")},
	}
	var got string
	for _, w := range trace.Of(steps, trace.Object{Kind: trace.Composite}, []any{"status", "a"}) {
		got += fmt.Sprintf("%s=%v ", w.Step.Name, w.Value)
	}
	if got != "one=x two=y " {
		t.Errorf("got %s", got)
	}
}
