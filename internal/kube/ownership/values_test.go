package ownership_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// document reads YAML as a cache holds it: its integers are int64.
func document(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMissingAndExtract(t *testing.T) {
	cases := map[string]struct {
		reason  string
		value   string
		set     string
		missing []object.Path
		extract string
	}{
		"What is in the set": {
			"nothing is missing", `{a: 1, b: {c: x}}`, `{"f:a":{},"f:b":{"f:c":{}}}`, nil, `{a: 1, b: {c: x}}`,
		},
		"A field that is not in the set": {
			"its siblings are", `{b: {c: x, d: y}}`, `{"f:b":{".":{},"f:c":{}}}`, []object.Path{"b.d"}, `{b: {c: x}}`,
		},
		"A branch that is not in the set": {
			"it is listed by its leaves", `{a: {z: {t: 1}, b: {}, m: null, l: [1]}}`, `{}`, []object.Path{"a.b", "a.l", "a.z.t"}, `{}`,
		},
		"A field that is owned as a whole": {
			"what is below it is in the set", `{a: {b: [1, {c: d}]}}`, `{"f:a":{}}`, nil, `{a: {b: [1, {c: d}]}}`,
		},
		"Null": {
			"an apply configuration asks for nothing by it", `{a: null}`, `{}`, nil, `{}`,
		},
		"Items of a set": {
			"they are found by their values", `{a: [x, 2, w]}`, `{"f:a":{"v:\"x\"":{},"v:2":{}}}`, []object.Path{"a[2]"}, `{a: [x, 2]}`,
		},
		"Items of an associative list": {
			"they are found by their keys, wherever they are", `{a: [{id: x, v: 1}, {id: z}, {id: w, v: 2, w: 3}]}`,
			`{"f:a":{"k:{\"id\":\"w\"}":{".":{},"f:id":{},"f:v":{}},"k:{\"id\":\"x\"}":{}}}`,
			[]object.Path{"a[1]", "a[2].w"}, `{a: [{id: x, v: 1}, {id: w, v: 2}]}`,
		},
		"An item without a key that has a default": {
			"the server filled it in", `{a: [{port: 80}]}`, `{"f:a":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}`, nil, `{a: [{port: 80}]}`,
		},
		"An item that is no map": {
			"it has no keys", `{a: [x]}`, `{"f:a":{"k:{\"id\":\"x\"}":{".":{}}}}`, []object.Path{"a[0]"}, `{a: []}`,
		},
		"Items by their place": {
			"the place is their element", `{a: [x, w]}`, `{"f:a":{"i:1":{}}}`, []object.Path{"a[0]"}, `{a: [w]}`,
		},
		"A scalar where members are below": {
			"its type has changed since", `{a: 1}`, `{"f:a":{"f:b":{}}}`, nil, `{a: 1}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v, fields := document(t, tc.value), set(t, tc.set)
			var missing []object.Path
			for _, name := range slices.Sorted(maps.Keys(v)) {
				missing = append(missing, ownership.UnownedPaths(name, v[name], fields, "")...)
			}
			if diff := cmp.Diff(tc.missing, missing); diff != "" {
				t.Errorf("%s: missing: -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(document(t, tc.extract), ownership.Extract(v, fields)); diff != "" {
				t.Errorf("%s: extracted: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOverlapsAndDiffers(t *testing.T) {
	cases := map[string]struct {
		reason            string
		wanted, live, set string
		overlaps, differ  bool
	}{
		"Another field":                {"it isn't wanted", `{a: 1}`, `{a: 2, b: 1}`, `{"f:b":{}}`, false, false},
		"A field with the same value":  {"both own it", `{a: 1}`, `{a: 1}`, `{"f:a":{}}`, true, false},
		"A field with another value":   {"the set's manager changed it", `{a: {b: 1}}`, `{a: {b: 2}}`, `{"f:a":{"f:b":{}}}`, true, true},
		"Another field of the branch":  {"the wanted one isn't in the set", `{a: {b: 1}}`, `{a: {b: 2, c: 3}}`, `{"f:a":{".":{},"f:c":{}}}`, false, false},
		"A branch owned as a whole":    {"all of it is compared", `{a: {b: 1}}`, `{a: {b: 1, c: 3}}`, `{"f:a":{}}`, true, true},
		"An item of a list":            {"lists are compared as a whole", `{a: [{id: x}]}`, `{a: [{id: x}, {id: w}]}`, `{"f:a":{"k:{\"id\":\"w\"}":{".":{}}}}`, true, true},
		"A branch that is a text now":  {"the values differ", `{a: {b: 1}}`, `{a: x}`, `{"f:a":{"f:b":{}}}`, true, true},
		"A branch that is wanted text": {"the values differ", `{a: x}`, `{a: {b: 1}}`, `{"f:a":{"f:b":{}}}`, true, true},
		"An empty set":                 {"its manager owns nothing", `{a: 1}`, `{a: 2}`, `{}`, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wanted, live, fields := document(t, tc.wanted), document(t, tc.live), set(t, tc.set)
			if got := ownership.Overlaps(wanted, fields); got != tc.overlaps {
				t.Errorf("%s: overlaps is %t", tc.reason, got)
			}
			if got := ownership.Differs(wanted, live, fields); got != tc.differ {
				t.Errorf("%s: differs is %t", tc.reason, got)
			}
		})
	}
}

func TestOwnsAny(t *testing.T) {
	const wanted = `{a: {b: 1, c: 2}, ab: 3, list: [{id: x, port: 1}, {id: y}]}`
	cases := map[string]struct {
		reason string
		field  object.Path
		set    string
		want   bool
	}{
		"The field":                    {"it is in the set", "a.b", `{"f:a":{"f:b":{}}}`, true},
		"Its sibling":                  {"the names differ", "a.b", `{"f:a":{"f:c":{}}}`, false},
		"The branch as a whole":        {"the field is a part of it", "a.b", `{"f:a":{}}`, true},
		"A name that begins like it":   {"it is another field", "ab", `{"f:ab":{}}`, true},
		"An item of a list":            {"its key is in the set", "list[0]", `{"f:list":{"k:{\"id\":\"x\"}":{".":{}}}}`, true},
		"A field of an item of a list": {"it is a part of the item", "list[0]", `{"f:list":{"k:{\"id\":\"x\"}":{"f:port":{}}}}`, true},
		"Another item":                 {"the keys differ", "list[0]", `{"f:list":{"k:{\"id\":\"y\"}":{".":{}}}}`, false},
		"An item of an unowned list":   {"no item is in the set", "list[0]", `{"f:a":{}}`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ownership.OwnsAny(document(t, wanted), []object.Path{tc.field}, set(t, tc.set)); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

func TestCut(t *testing.T) {
	cases := map[string]struct {
		reason    string
		set       string
		path      fieldpath.Path
		rest, cut string
	}{
		"A field": {
			"its siblings stay", `{"f:a":{"f:b":{},"f:c":{}}}`, ownership.Path("a", "b"), `{"f:a":{"f:c":{}}}`, `{"f:a":{"f:b":{}}}`,
		},
		"A branch": {
			"what is below it goes with it", `{"f:a":{"f:b":{".":{},"f:c":{}}},"f:d":{}}`, ownership.Path("a", "b"), `{"f:d":{}}`, `{"f:a":{"f:b":{".":{},"f:c":{}}}}`,
		},
		"Maps above": {
			"no manager owns them as members", `{"f:a":{".":{},"f:b":{".":{},"f:c":{},"f:d":{}}}}`, ownership.Path("a", "b", "c"), `{"f:a":{"f:b":{"f:d":{}}}}`, `{"f:a":{"f:b":{"f:c":{}}}}`,
		},
		"What isn't there": {
			"the set stays as it is", `{"f:a":{".":{},"f:c":{}}}`, ownership.Path("a", "b"), `{"f:a":{".":{},"f:c":{}}}`, `{}`,
		},
		"What is below a field that is owned as a whole": {
			"the set has no such path", `{"f:a":{}}`, ownership.Path("a", "b"), `{"f:a":{}}`, `{}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := set(t, tc.set)
			rest, cut := ownership.Split(before, tc.path)
			if !rest.Equals(set(t, tc.rest)) {
				t.Errorf("%s: the rest is\n%s", tc.reason, rest)
			}
			if !cut.Equals(set(t, tc.cut)) {
				t.Errorf("%s: cut is\n%s", tc.reason, cut)
			}
			if !before.Equals(set(t, tc.set)) {
				t.Errorf("the set was changed to\n%s", before)
			}
		})
	}
}
