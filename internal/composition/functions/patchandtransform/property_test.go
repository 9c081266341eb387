package patchandtransform

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/testkit/functiontest"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestRunningTwiceIsRunningOnce runs each example again on what it wanted. It never
// changes what is observed, nor what it was given in the context.
func TestRunningTwiceIsRunningOnce(t *testing.T) {
	for _, a := range golden.Read(t, "testdata/*.txtar") {
		first, again := request(t, a.Input), request(t, a.Input)
		once := Run(first)
		if diff := cmp.Diff(again.Observed, first.Observed); diff != "" {
			t.Errorf("%s: what is observed was changed:\n%s", a.Path, diff)
		}
		if diff := cmp.Diff(again.Context, first.Context); diff != "" {
			t.Errorf("%s: the context that was given was changed:\n%s", a.Path, diff)
		}
		again.Desired, again.Context = once.Desired, once.Context
		if diff := cmp.Diff(answerText(t, once), answerText(t, Run(again))); diff != "" {
			t.Errorf("%s: (-once +twice):\n%s", a.Path, diff)
		}
	}
}

// FuzzInput feeds inputs: whatever they ask for, the function answers, and what it wants
// can be held by objects.
func FuzzInput(f *testing.F) {
	for _, a := range golden.Read(f, "testdata/*.txtar") {
		seed, err := json.Marshal(functiontest.Object(f, a.Input["input.yaml"]))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var raw map[string]any
		if json.Unmarshal(data, &raw) != nil {
			return
		}
		input, err := fieldpath.JSON(raw)
		if err != nil {
			return
		}
		o := func() map[string]any {
			return map[string]any{
				"apiVersion": "v1", "kind": "XR", "metadata": map[string]any{"name": "x"},
				"spec": map[string]any{"size": "small", "n": int64(3), "f": 0.5, "l": []any{"a", nil}}, "status": map[string]any{"ok": true},
			}
		}
		r := Run(call.Request{
			Input:    input.(map[string]any),
			Observed: call.State{Composite: call.Resource{Object: o()}, Resources: map[string]call.Resource{"bucket": {Object: o()}, "a": {Object: o()}}},
			Desired:  call.State{Resources: map[string]call.Resource{"worker": {Object: o()}}},
		})
		for name, resource := range r.Desired.Resources {
			if _, err := json.Marshal(resource.Object); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
