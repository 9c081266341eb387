package plain

import (
	"errors"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/go-cmp/cmp"
)

func TestCopiesShareNothing(t *testing.T) {
	in := map[string]any{"a": []any{map[string]any{"b": 1}}, "c": float32(0.5), "d": nil}
	got := Copy(in).(map[string]any)
	got["a"].([]any)[0].(map[string]any)["b"] = "changed"
	if in["a"].([]any)[0].(map[string]any)["b"] != 1 {
		t.Error("the copy shares a map")
	}
	want := map[string]any{"a": []any{map[string]any{"b": int64(1)}}, "c": 0.5, "d": nil}
	if diff := cmp.Diff(want, Copy(in)); diff != "" {
		t.Error(diff)
	}
}

func TestSizeIsBounded(t *testing.T) {
	list := types.DefaultTypeAdapter.NativeToValue([]string{"abcd", "efgh"})
	if _, err := FromCEL(list, 31); !errors.Is(err, ErrSize) {
		t.Error("want ErrSize, got", err)
	}
	if _, err := FromCEL(list, 32); err != nil {
		t.Error(err)
	}
}
