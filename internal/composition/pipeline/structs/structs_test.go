package structs_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
)

func TestRoundTrip(t *testing.T) {
	cases := map[string]struct{ in, want any }{
		"A whole number stays an int64":                       {int64(3), int64(3)},
		"A whole number that came as a float is an int64":     {float64(3), int64(3)},
		"The largest exact whole number is kept":              {int64(1<<53 - 1), int64(1<<53 - 1)},
		"A negative whole number is kept":                     {int64(-7), int64(-7)},
		"Minus zero is zero":                                  {math.Copysign(0, -1), int64(0)},
		"A fraction stays a float":                            {0.5, 0.5},
		"A number beyond int64 stays a float":                 {1e19, 1e19},
		"The float next above the largest int64 is no int64":  {float64(math.MaxInt64), float64(math.MaxInt64)},
		"The smallest int64 is one":                           {float64(math.MinInt64), int64(math.MinInt64)},
		"A number as text of JSON is understood":              {json.Number("12"), int64(12)},
		"Numbers of Go code are understood":                   {[]any{1, int32(2), uint64(3), float32(0.5)}, []any{int64(1), int64(2), int64(3), 0.5}},
		"Null is kept, since it removes a field when applied": {nil, nil},
		"An empty list is not null":                           {[]any{}, []any{}},
		"An empty object is not null":                         {map[string]any{}, map[string]any{}},
		"Lists and objects nest":                              {[]any{map[string]any{"a": []any{true, "x"}}}, []any{map[string]any{"a": []any{true, "x"}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := structs.ToStruct(map[string]any{"v": tc.in})
			if err != nil {
				t.Fatal(err)
			}
			got, err := structs.ToObject(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]any{"v": tc.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNothingIsNothing(t *testing.T) {
	if s, err := structs.ToStruct(nil); s != nil || err != nil {
		t.Errorf("want no struct, got %v, %v", s, err)
	}
	if o, err := structs.ToObject(nil); o != nil || err != nil {
		t.Errorf("want no object, got %v, %v", o, err)
	}
}

func TestWhatObjectsCannotHold(t *testing.T) {
	deep, deepValue := any("x"), structpb.NewStringValue("x")
	for range structs.MaxDepth + 1 {
		deep = map[string]any{"a": deep}
		deepValue = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": deepValue}})
	}
	to := map[string]struct {
		in      any
		want    error
		message string
	}{
		"Not a number":          {[]any{map[string]any{"x": math.NaN()}}, structs.ErrNumber, "v[0].x: not a finite number"},
		"Infinity":              {math.Inf(1), structs.ErrNumber, "v: not a finite number"},
		"A text of stray bytes": {"\xff", structs.ErrText, "v: not valid UTF-8"},
		"A key of stray bytes":  {map[string]any{"\xff": 1}, structs.ErrText, `v: key "\xff": not valid UTF-8`},
		"A channel":             {make(chan int), structs.ErrType, "v: chan int: not a JSON type"},
		"A number that is none": {json.Number("x"), structs.ErrType, "v: json.Number: not a JSON type"},
		"A very deep one":       {deep, structs.ErrDepth, ""},
	}
	for name, tc := range to {
		_, err := structs.ToStruct(map[string]any{"v": tc.in})
		if !errors.Is(err, tc.want) || tc.message != "" && err.Error() != tc.message {
			t.Errorf("%s: got %v", name, err)
		}
	}
	from := map[string]struct {
		in   *structpb.Value
		want error
	}{
		"Not a number":          {structpb.NewNumberValue(math.NaN()), structs.ErrNumber},
		"A text of stray bytes": {structpb.NewStringValue("\xff"), structs.ErrText},
		"A very deep one":       {deepValue, structs.ErrDepth},
	}
	for name, tc := range from {
		if _, err := structs.ToObject(&structpb.Struct{Fields: map[string]*structpb.Value{"v": tc.in}}); !errors.Is(err, tc.want) {
			t.Errorf("from %s: got %v", name, err)
		}
	}
	if o, err := structs.ToObject(&structpb.Struct{Fields: map[string]*structpb.Value{"v": nil, "w": {}}}); err != nil || !cmp.Equal(o, map[string]any{"v": nil, "w": nil}) {
		t.Errorf("values without a kind are null; got %v, %v", o, err)
	}
}

// FuzzFrom feeds structs as a function may send them: each either becomes an object
// that comes back unchanged, or an error; never a crash.
func FuzzFrom(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"b":[0.5,null,{"c":"d"}],"e":-0.0,"f":1e300}`} {
		s, err := structs.FromJSON([]byte(seed))
		if err != nil {
			f.Fatal(err)
		}
		data, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &structpb.Struct{}
		if proto.Unmarshal(data, in) != nil {
			return
		}
		object, err := structs.ToObject(in)
		if err != nil {
			return
		}
		again, err := structs.ToStruct(object)
		if err != nil {
			t.Fatalf("there and not back: %v", err)
		}
		twice, err := structs.ToObject(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(object, twice); diff != "" {
			t.Error(diff)
		}
	})
}

// FuzzText feeds objects as people write them.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[0.5,null,{"c":"d"}]}`))
	f.Add([]byte(`{"big":9223372036854775807,"small":-9223372036854775808}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := structs.FromJSON(data)
		if err != nil || s == nil {
			return
		}
		if _, err := structs.ToObject(s); err != nil {
			t.Fatal(err)
		}
	})
}
