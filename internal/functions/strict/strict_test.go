package strict_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/functions/strict"
)

type name string

type sample struct {
	Name  name             `json:"name"`
	Count *int64           `json:"count,omitempty"`
	Yes   bool             `json:"yes"`
	Below []*sample        `json:"below"`
	Texts map[string]int64 `json:"texts"`
	Free  map[string]any   `json:"free"`
	Any   any              `json:"any"`
}

func TestDecode(t *testing.T) {
	three := int64(3)
	cases := map[string]struct {
		from map[string]any
		want sample
		says string
	}{
		"Every field is filled": {
			from: map[string]any{
				"name": "a", "count": int64(3), "yes": true, "below": []any{map[string]any{"name": "b"}},
				"texts": map[string]any{"x": int64(1)}, "free": map[string]any{"y": 0.5}, "any": []any{"z"},
			},
			want: sample{
				Name: "a", Count: &three, Yes: true, Below: []*sample{{Name: "b"}},
				Texts: map[string]int64{"x": 1}, Free: map[string]any{"y": 0.5}, Any: []any{"z"},
			},
		},
		"Null is nothing":               {from: map[string]any{"name": nil, "count": nil, "below": nil, "free": nil, "any": nil}},
		"An unknown field has no place": {from: map[string]any{"nmae": "a"}, says: `nmae: no such field; did you mean "name"?`},
		"A fraction is no whole number": {from: map[string]any{"count": 0.5}, want: sample{Count: new(int64)}, says: "count: is a fraction, not a whole number"},
		"A text is no yes or no":        {from: map[string]any{"yes": "true"}, says: "yes: is a text, not a yes or no"},
		"A whole number is no text":     {from: map[string]any{"name": int64(1)}, says: "name: is a whole number, not a text"},
		"An object is no list":          {from: map[string]any{"below": map[string]any{}}, says: "below: is an object, not a list"},
		"A list is no object":           {from: map[string]any{"free": []any{}}, says: "free: is a list, not an object"},
		"A list has an end":             {from: map[string]any{"below": make([]any, strict.MaxItems+1)}, says: "below: has 4097 items, of 4096 allowed"},
		"A mistake is told by its path": {from: map[string]any{"below": []any{map[string]any{"texts": map[string]any{"x/y": "1"}}}}, want: sample{Below: []*sample{{Texts: map[string]int64{"x/y": 0}}}}, says: `below[0].texts["x/y"]: is a text, not a whole number`},
		"All mistakes are told at once": {from: map[string]any{"yes": int64(1), "below": []any{"x"}}, want: sample{Below: []*sample{{}}}, says: "below[0]: is a text, not an object\nyes: is a whole number, not a yes or no"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got sample
			var problems diag.List
			strict.Decode(tc.from, &got, "", &problems)
			says := ""
			if err := problems.Err(); err != nil {
				says = err.Error()
			}
			if diff := cmp.Diff(tc.says, says); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
