package source_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/diag/source"
	"github.com/espalier-dev/espalier/internal/object"
)

const file = `# A comment, and a separator.
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: "ä-${schema.spec.name}"   # quoted
  labels: {app: one, "b/c": 'two'}
data:
  plain: ${ a.b } and ${ c.d }
  block: |
    first
      ${ [1,
          2].sum() }
  list:
  - x
  -   key: y
---
kind: Second
empty:
`

// find returns the text of a range that is within one line.
func find(text string, r source.Range) string {
	line := []rune(strings.Split(text, "\n")[r.Start.Line-1])
	end := r.End.Column - 1
	if r.End.Line != r.Start.Line {
		end = len(line)
	}
	return fmt.Sprintf("%d:%s", r.Start.Line, string(line[r.Start.Column-1:end]))
}

func parse(t *testing.T, text string) []*source.Document {
	t.Helper()
	documents, problems := source.Parse(text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return documents
}

func TestFieldsHaveTheirPlace(t *testing.T) {
	documents := parse(t, file)
	for _, test := range []struct {
		document int
		path     object.Path
		want     string
	}{
		{0, "kind", "4:ConfigMap"},
		{0, "metadata", "5:metadata"},
		{0, "metadata.name", `6:"ä-${schema.spec.name}"`},
		{0, "metadata.labels.app", "7:one"},
		{0, `metadata.labels["b/c"]`, "7:'two'"},
		{0, "metadata.missing.field", "5:metadata"},
		{0, "data.plain", "9:${ a.b } and ${ c.d }"},
		{0, "data.block", "10:|"},
		{0, "data.list[0]", "15:x"},
		{0, "data.list[1].key", "16:y"},
		{0, "data.list[1].no", "16:k"},
		{0, "", "3:a"},
		{1, "kind", "18:Second"},
		{1, "empty", "19:empty"},
	} {
		if got := find(file, documents[test.document].Range(test.path)); got != test.want {
			t.Errorf("%s: %s, want %s", test.path, got, test.want)
		}
	}
}

func TestPartsOfExpressionsHaveTheirPlace(t *testing.T) {
	d := parse(t, file)[0]
	for _, test := range []struct {
		path           object.Path
		expr, at, want string
	}{
		{"metadata.name", "schema.spec.name", "spec", "6:spec"},
		{"data.plain", "c.d", "d", "9:d"},
		{"data.plain", "not there", "t", "9:${ a.b } and ${ c.d }"},
		{"data.block", "[1,\n    2].sum()", "1", "12:1"},
		{"data.block", "[1,\n    2].sum()", "sum", "13:s"},
	} {
		offset := strings.Index(test.expr, test.at)
		if got := find(file, d.RangeOf(test.path, test.expr, offset, len(test.at))); got != test.want {
			t.Errorf("%s in %q: %s, want %s", test.at, test.expr, got, test.want)
		}
	}
}

func TestPositionsHaveTheirField(t *testing.T) {
	d := parse(t, file)[0]
	for _, test := range []struct {
		at     source.Position
		want   object.Path
		onName bool
	}{
		{source.Position{4, 2}, "kind", true},
		{source.Position{4, 8}, "kind", false},
		{source.Position{6, 12}, "metadata.name", false},
		{source.Position{7, 14}, "metadata.labels.app", true},
		{source.Position{12, 9}, "data.block", false},
		{source.Position{15, 5}, "data.list[0]", false},
		{source.Position{16, 12}, "data.list[1].key", false},
	} {
		if got, onName := d.At(test.at); got != test.want || onName != test.onName {
			t.Errorf("%v: %s %v, want %s %v", test.at, got, onName, test.want, test.onName)
		}
	}
}

func TestObjectsAreThoseOfTheAPIServer(t *testing.T) {
	got := parse(t, "a: 1\nb: 1.5\nc: yes\nd: \"yes\"\n")[0].Object
	if diff := cmp.Diff(map[string]any{"a": int64(1), "b": 1.5, "c": true, "d": "yes"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestProblemsHaveTheirPlace(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
		documents  int
	}{
		"a tab":           {"a: 1\n---\nb:\n\tc: 1\n", "4:2: found character that cannot start any token", 1},
		"a key twice":     {"a: 1\nb: {c: 1,\n  c: 2}\n", `3:3: the key "c" is already in line 2`, 1},
		"no object":       {"a: 1\n---\n- x\n", "3:1: a document must be an object with apiVersion and kind", 1},
		"an open bracket": {"a: [1\nb: 2\n", "1:1: did not find expected ',' or ']'", 0},
		"a key twice, after a line that ends without a newline": {"\"a\": 1\r\"a\": 2\n\n", `2:1: the key "a" is already in line 1`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			documents, problems := source.Parse(test.text)
			if len(problems) != 1 || problems[0].String() != test.want || len(documents) != test.documents {
				t.Errorf("%d documents and %v, want %s", len(documents), problems, test.want)
			}
		})
	}
}

func TestAliasesAreBounded(t *testing.T) {
	few, _ := source.Parse("a: &a [1]\nb: [" + strings.Repeat("*a, ", 1000) + "1]\n")
	if len(few) != 1 {
		t.Errorf("%d documents with small aliases", len(few))
	}
	text := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 20) + "1]\n"
	if documents, problems := source.Parse(text); len(documents) > 0 || len(problems) != 1 || problems[0].String() != "1:1: its YAML aliases make the document too large" {
		t.Errorf("%d documents and %v", len(documents), problems)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file)
	f.Add("a: &x {b: *x}\n<<: *x\n")
	f.Fuzz(func(t *testing.T, text string) {
		documents, problems := source.Parse(text)
		for _, p := range problems {
			if p.Range.Start.Line < 1 || p.Range.Start.Line > strings.Count(text, "\n")+1 {
				t.Errorf("%v is not in the file", p)
			}
		}
		for _, d := range documents {
			for key := range d.Object {
				d.Range(object.Path("").Field(key))
				d.At(source.Position{Line: 1, Column: 1})
			}
		}
	})
}

func TestItemsOfAList(t *testing.T) {
	const list = `
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- &first
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
- text
- apiVersion: v1
  kind: List
  items:
  - {apiVersion: v1, kind: Secret, metadata: {name: b}}
- *first
- null
---
{apiVersion: example.com/v1, kind: List, items: [{kind: Mine}]}
---
{apiVersion: v1, kind: List}
---
{apiVersion: v1, kind: List, items: none}
`
	var got []string
	for _, d := range parse(t, list) {
		items, problems := d.Items()
		for _, i := range items {
			got = append(got, fmt.Sprint(i.Object["kind"], " ", find(list, i.Range("metadata.name"))))
		}
		for _, p := range problems {
			got = append(got, find(list, p.Range)+" "+p.Message)
		}
	}
	want := []string{
		"ConfigMap 9:a", "Secret 14:b", "ConfigMap 9:a",
		"10:text an item of a List must be an object with apiVersion and kind", "16:null an item of a List must be an object with apiVersion and kind",
		"List 18:{",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
