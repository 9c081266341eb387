package object_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/object"
)

// TestJSONIsThatOfTheLibrary compares drawn values: digests are stored on objects, so that another encoding
// would have all of them written again.
func TestJSONIsThatOfTheLibrary(t *testing.T) {
	leaf := rapid.OneOf(
		rapid.String().AsAny(), rapid.StringMatching(`[ -~]{0,12}`).AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(),
		rapid.Float64Range(-1e30, 1e30).AsAny(), rapid.Just(any(nil)), rapid.Int().AsAny(),
		rapid.SliceOf(rapid.Byte()).AsAny(), rapid.SampledFrom([]any{"<a>", "a&b", "\u2028", "\xff", `"\`, "\x7f", map[string]any(nil), []any(nil), map[string]string{"b": "", "a": "<"}}),
	)
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return leaf
		}
		below := value(depth - 1)
		return rapid.OneOf(leaf, rapid.MapOfN(rapid.String(), below, 0, 4).AsAny(), rapid.SliceOfN(below, 0, 4).AsAny())
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		want, errWant := json.Marshal(v)
		got, err := object.AppendJSON([]byte("before"), v)
		if err != nil || errWant != nil || string(got) != "before"+string(want) {
			t.Errorf("got %s (%v), want %s (%v)", got, err, want, errWant)
		}
	})
}

func TestJSONFailsAsTheLibraryDoes(t *testing.T) {
	for _, v := range []any{math.NaN(), map[string]any{"a": []any{math.Inf(1)}}, []any{func() {}}} {
		if got, err := object.AppendJSON(nil, v); err == nil {
			t.Errorf("%v: got %s", v, got)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	labels := map[string]any{}
	for _, name := range []string{"app.kubernetes.io/name", "app.kubernetes.io/managed-by", "example.org/instance-id", "example.org/node", "example.org/kind"} {
		labels[name] = "a value of some length"
	}
	v := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "labels": labels}, "data": map[string]any{"text": "x", "number": int64(7)}}
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := object.AppendJSON(make([]byte, 0, 1024), v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
