package strict_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
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
		"Null is nothing":              {from: map[string]any{"name": nil, "count": nil, "below": nil, "free": nil, "any": nil}},
		"An unknown field is an error": {from: map[string]any{"nmae": "a"}, says: `nmae: no such field; did you mean "name"?`},
		"A float is not an integer":    {from: map[string]any{"count": 0.5}, want: sample{Count: new(int64)}, says: "count: must be an integer, not a float"},
		"A string is not a boolean":    {from: map[string]any{"yes": "true"}, says: "yes: must be a boolean, not a string"},
		"An integer is not a string":   {from: map[string]any{"name": int64(1)}, says: "name: must be a string, not an integer"},
		"An object is not a list":      {from: map[string]any{"below": map[string]any{}}, says: "below: must be a list, not an object"},
		"A list is not an object":      {from: map[string]any{"free": []any{}}, says: "free: must be an object, not a list"},
		"A list has a maximum length":  {from: map[string]any{"below": make([]any, strict.MaxItems+1)}, says: "below: has 4097 items, over the limit of 4096"},
		"An error has its path":        {from: map[string]any{"below": []any{map[string]any{"texts": map[string]any{"x/y": "1"}}}}, want: sample{Below: []*sample{{Texts: map[string]int64{"x/y": 0}}}}, says: `below[0].texts["x/y"]: must be an integer, not a string`},
		"All errors are reported":      {from: map[string]any{"yes": int64(1), "below": []any{"x"}}, want: sample{Below: []*sample{{}}}, says: "below[0]: must be an object, not a string\nyes: must be a boolean, not an integer"},
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
