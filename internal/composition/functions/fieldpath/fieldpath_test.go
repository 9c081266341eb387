package fieldpath

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func parsed(t testing.TB, text string) any {
	t.Helper()
	var raw any
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	v, err := JSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParse(t *testing.T) {
	cases := map[string]struct{ path, want, err string }{
		"Fields are separated by periods":         {"metadata.name", "metadata|name", ""},
		"A number in brackets is an index":        {"spec.items[0][8]", "spec|items|#0|#8", ""},
		"A path can begin with an index":          {"[42]", "#42", ""},
		"A key in brackets can hold periods":      {"data[.config.yml]", "data|.config.yml", ""},
		"A key can have single quotes":            {"metadata.annotations['a.b/c']", "metadata|annotations|a.b/c", ""},
		"A key can have double quotes":            {`metadata.labels["a.b/c"].x`, "metadata|labels|a.b/c|x", ""},
		"A number in quotes is a field":           {"data['0']", "data|0", ""},
		"A number without brackets is a field":    {"data.0", "data|0", ""},
		"A number beyond 32 bits is a field":      {"data[4294967296]", "data|4294967296", ""},
		"A wildcard is a field named *":           {"spec.items[*].name", "spec|items|*|name", ""},
		"A period after a bracket can be missing": {"a[0]b", "a|#0|b", ""},
		"No path can begin with a period":         {".a", "", `cannot parse path ".a": unexpected '.' at position 0`},
		"No path can end with a period":           {"a.", "", `cannot parse path "a.": unexpected '.' at position 1`},
		"Two periods have nothing between them":   {"a..b", "", `cannot parse path "a..b": unexpected '.' at position 2`},
		"Brackets cannot be empty":                {"a[]", "", `cannot parse path "a[]": unexpected ']' at position 2`},
		"Brackets do not follow a period":         {"a.[0]", "", `cannot parse path "a.[0]": unexpected '[' at position 2`},
		"Brackets have to end":                    {"a[0", "", `cannot parse path "a[0": unterminated '[' at position 1`},
		"Brackets do not nest":                    {"a[b[c]]", "", `cannot parse path "a[b[c]]": unexpected '[' at position 3`},
		"A bracket does not end what is open":     {"a]", "", `cannot parse path "a]": unexpected ']' at position 1`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path, err := Parse(tc.path)
			var parts []string
			for _, s := range path {
				if s.IsIndex {
					parts = append(parts, fmt.Sprintf("#%d", s.Index))
				} else {
					parts = append(parts, s.Field)
				}
			}
			if err != nil && err.Error() != tc.err || err == nil && tc.err != "" {
				t.Errorf("want %q, got %v", tc.err, err)
			}
			if got := strings.Join(parts, "|"); err == nil && got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
	if _, err := Parse(strings.Repeat("a", maxLength+1)); err == nil {
		t.Error("a path has no end")
	}
	if _, err := Parse(strings.Repeat("a.", maxSegments) + "a"); err == nil {
		t.Error("a path has no end of segments")
	}
}

func TestGet(t *testing.T) {
	object := parsed(t, "{a: {b: [x, 2], z: null}, l: {x/y.z: 1}}").(map[string]any)
	cases := map[string]struct {
		path    string
		want    any
		err     string
		missing bool
	}{
		"A field's value is found":                {"a.b[1]", int64(2), "", false},
		"Null is a value":                         {"a.z", nil, "", false},
		"A key with a period is found":            {"l[x/y.z]", int64(1), "", false},
		"A field that could be there is missing":  {"a.c.d", nil, "a.c: no such field", true},
		"An item beyond the end is missing":       {"a.b[2]", nil, "a.b[2]: no such element", true},
		"A text has no fields":                    {"a.b[0].c", nil, "a.b[0]: not an object", false},
		"A field of null is missing":              {"a.z.c", nil, "a.z: is null", true},
		"An item of null is missing":              {"a.z[0]", nil, "a.z: is null", true},
		"A field of all items of null is missing": {"a.z[*].c", nil, "a.z: is null", true},
		"An object has no items":                  {"a[0]", nil, "a: not an array", false},
	}
	for name, tc := range cases {
		got, err := Get(object, tc.path)
		if !reflect.DeepEqual(got, tc.want) || (err != nil || tc.err != "") && (err == nil || err.Error() != tc.err) || IsNotFound(err) != tc.missing {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestSet(t *testing.T) {
	keep, force := Policy{Merge: true, KeepExisting: true}, Policy{Merge: true}
	keepAppend, forceAppend := Policy{Merge: true, KeepExisting: true, AppendLists: true}, Policy{Merge: true, AppendLists: true}
	cases := map[string]struct {
		object, path string
		value        string
		policy       Policy
		want, err    string
	}{
		"Objects on the way are made":                     {"{}", "a.b", "1", Policy{}, "{a: {b: 1}}", ""},
		"Lists on the way are made and filled with nulls": {"{}", "a[1].b", "1", Policy{}, "{a: [null, {b: 1}]}", ""},
		"Lists grow":                                         {"{a: [x]}", "a[2]", "1", Policy{}, "{a: [x, null, 1]}", ""},
		"Lists in lists grow":                                {"{a: [[x]]}", "a[0][1]", "1", Policy{}, "{a: [[x, 1]]}", ""},
		"No list grows without end":                          {"{}", "a[1025]", "1", Policy{}, "{}", "index 1025 is greater than max allowed index 1024"},
		"A value replaces another":                           {"{a: {b: 1, c: 2}}", "a", "{b: 3}", Policy{}, "{a: {b: 3}}", ""},
		"A text is not turned into an object":                {"{a: x}", "a.b", "1", Policy{}, "", "a is not an object"},
		"Null is not turned into an object":                  {"{a: null}", "a.b", "1", Policy{}, "", "a is not an object"},
		"A wildcard stands for all items":                    {"{a: [{b: 1}, {b: 2}]}", "a[*].b", "3", Policy{}, "{a: [{b: 3}, {b: 3}]}", ""},
		"A wildcard stands for all fields":                   {"{a: {x: {b: 1}, y: {b: 2}}}", "a[*].b", "3", Policy{}, "{a: {x: {b: 3}, y: {b: 3}}}", ""},
		"A wildcard stands only for what is there":           {"{a: [{b: 1}, {}]}", "a[*].b", "3", Policy{}, "{a: [{b: 3}, {}]}", ""},
		"A null item is passed over":                         {"{a: [null, {b: 1}]}", "a[*].b", "3", Policy{}, "{a: [null, {b: 3}]}", ""},
		"A list that is null is passed over":                 {"{a: [{b: null}, {b: [1]}]}", "a[*].b[*]", "3", Policy{}, "{a: [{b: null}, {b: [3]}]}", ""},
		"All items of null are not found":                    {"{a: null}", "a[*].b", "3", Policy{}, "", "cannot expand wildcards of a[*].b: a: is null"},
		"A list below null is not found":                     {"{a: null}", "a.b[*]", "3", Policy{}, "", "cannot expand wildcards of a.b[*]: a: is null"},
		"A field of null items only is not found":            {"{a: [null]}", "a[*].b", "3", Policy{}, "", "cannot expand wildcards of a[*].b: a[0]: is null"},
		"A wildcard that stands for nothing is an error":     {"{a: [{}]}", "a[*].b", "3", Policy{}, "", "cannot expand ToFieldPath a[*].b"},
		"A wildcard does not stand for parts of a text":      {"{a: x}", "a[*]", "3", Policy{}, "", `cannot expand wildcards of a[*]: "a": unexpected wildcard usage`},
		"Merging adds fields":                                {"{a: {b: 1}}", "a", "{c: 2}", keep, "{a: {b: 1, c: 2}}", ""},
		"Merging keeps fields that are there":                {"{a: {b: 1, o: {x: 1}}}", "a", "{b: 2, o: {x: 2, y: 3}}", keep, "{a: {b: 1, o: {x: 1, y: 3}}}", ""},
		"Merging fills fields that are empty":                {"{a: {b: 0, s: '', l: []}}", "a", "{b: 2, s: x, l: [1]}", keep, "{a: {b: 2, s: x, l: [1]}}", ""},
		"Merging keeps a list that is there":                 {"{a: {l: [1]}}", "a", "{l: [2]}", keep, "{a: {l: [1]}}", ""},
		"Merging keeps a single value":                       {"{a: 1}", "a", "2", keep, "{a: 1}", ""},
		"Merging with force replaces single values":          {"{a: {b: 1, c: 1}}", "a", "{b: 2}", force, "{a: {b: 2, c: 1}}", ""},
		"Merging with force replaces lists":                  {"{a: {l: [1]}}", "a", "{l: [2]}", force, "{a: {l: [2]}}", ""},
		"Merging with force empties fields":                  {"{a: {b: 1}}", "a", "{b: 0}", force, "{a: {b: 0}}", ""},
		"Appending keeps what is there, single values first": {"{a: {b: 1, l: [1]}}", "a", "{b: 2, l: [2]}", keepAppend, "{a: {b: 1, l: [1, 2]}}", ""},
		"Appending with force replaces single values":        {"{a: {b: 1, l: [1]}}", "a", "{b: 2, l: [2]}", forceAppend, "{a: {b: 2, l: [1, 2]}}", ""},
		"Appending to a list repeats no item":                {"{a: [1, {x: 1}]}", "a", "[{x: 1}, 2]", forceAppend, "{a: [1, {x: 1}, 2]}", ""},
		"Appending an empty list to one is an empty list":    {"{a: []}", "a", "[]", forceAppend, "{a: []}", ""},
		"It is below an object, too":                         {"{a: {l: []}}", "a", "{l: []}", keepAppend, "{a: {l: []}}", ""},
		"Appending an empty list changes none":               {"{a: [1]}", "a", "[]", keepAppend, "{a: [1]}", ""},
		"Appending to an empty list fills it":                {"{a: []}", "a", "[1]", keepAppend, "{a: [1]}", ""},
		"Appending an empty list to nothing is one":          {"{}", "a", "[]", keepAppend, "{a: []}", ""},
		"Appending a list to a text is an error":             {"{a: x}", "a", "[1]", forceAppend, "", "failed to merge values: cannot append two slices with different type ([]interface {}, string)"},
		"Merging into nothing writes":                        {"{}", "a.b", "{c: 1}", keep, "{a: {b: {c: 1}}}", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := parsed(t, tc.object).(map[string]any)
			err := Set(object, tc.path, parsed(t, tc.value), tc.policy)
			if err != nil || tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("want %q, got %v", tc.err, err)
				}
				if missing := strings.HasSuffix(tc.err, "is null"); IsNotFound(err) != missing {
					t.Errorf("is it NotFound? want %v, got %v", missing, err)
				}
				return
			}
			if diff := cmp.Diff(parsed(t, tc.want), any(object)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSettingTwiceIsSettingOnce is about everything but lists below objects, to which
// items are appended again.
func TestSettingTwiceIsSettingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := values(3).Draw(t, "value")
		object := map[string]any{"a": values(3).Draw(t, "object")}
		path := rapid.SampledFrom([]string{"a", "a.b", "a[1]", "a.b[0].c", "a[*]", "a[*].b", "b.c"}).Draw(t, "path")
		policy := rapid.SampledFrom([]Policy{{}, {Merge: true}, {Merge: true, KeepExisting: true}}).Draw(t, "policy")
		if Set(object, path, value, policy) != nil {
			return
		}
		once := runtime.DeepCopyJSON(object)
		if err := Set(object, path, value, policy); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(once, object); diff != "" {
			t.Fatalf("(-once +twice):\n%s", diff)
		}
		if got, err := Get(object, path); policy == (Policy{}) && !strings.Contains(path, "*") && (err != nil || !reflect.DeepEqual(got, value)) {
			t.Fatalf("what was set is not what is got: %v, %v", got, err)
		}
	})
}

func values(depth int) *rapid.Generator[any] {
	single := rapid.SampledFrom([]any{nil, true, false, int64(0), int64(3), 0.5, "", "x"})
	if depth == 0 {
		return single
	}
	return rapid.OneOf(
		single,
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"b", "c", "*"}), values(depth-1), 0, 3), func(m map[string]any) any { return m }),
	)
}

// FuzzPath feeds paths: what can be parsed and written can be read back, and nothing
// crashes.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a.b[0]", "a['x.y'].c", "[*]", "a[*][*].b", "a[0]b", "..", "a[", "é.[", "'", "a[''].b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := Parse(path)
		object := map[string]any{"a": []any{map[string]any{"b": int64(1)}}}
		if set := Set(object, path, "v", Policy{Merge: true}); err != nil && set == nil {
			t.Fatal("a path that cannot be parsed was written")
		} else if set != nil || len(p) == 0 || strings.Contains(path, "[*]") {
			return
		}
		if got, err := Get(object, path); err != nil || got != "v" {
			t.Fatalf("got %v, %v", got, err)
		}
	})
}
