package object_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/object"
)

func TestPatternsAreWrittenAsPathsAre(t *testing.T) {
	for text, want := range map[string]string{
		"spec.replicas":                           "",
		`metadata.annotations["example.com/x"]`:   "",
		"spec.template.spec.containers[*].image":  "",
		"spec.template.spec.containers[0].env[1]": "",
		"data":           "",
		`data["a]b\"c"]`: "",
		"":               "is empty",
		" ":              "is empty",
		"/spec/replicas": "is a JSON pointer; write spec.replicas",
		"/metadata/annotations/example.com~1x/0/~0": `is a JSON pointer; write metadata.annotations["example.com/x"][0]["~"]`,
		".spec.replicas":  "write spec.replicas",
		"$.spec.replicas": "write spec.replicas",
		"spec..replicas":  `has "" for a field's name`,
		"spec.":           `has "" for a field's name`,
		"spec.a b":        `has "a b" for a field's name; one with other characters`,
		"spec[replicas]":  "has [replicas]",
		"spec[-1]":        "has [-1]",
		"spec[":           "has an unclosed bracket",
		`spec["a]`:        "has an unclosed bracket",
		`spec["a"`:        "has an unclosed bracket",
		"spec[0]a":        `has "a" where a dot or a bracket is expected`,
	} {
		_, err := object.ParsePattern(text)
		switch {
		case err == nil && want != "":
			t.Errorf("%q is a pattern", text)
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%q %v, not %q", text, err, want)
		}
	}
}

func TestAPatternCoversWhatIsBelow(t *testing.T) {
	for name, tc := range map[string]struct {
		pattern string
		field   object.Path
		want    bool
	}{
		"the field itself":             {"spec.replicas", "spec.replicas", true},
		"what is below it":             {"spec", "spec.template.spec", true},
		"not what is above":            {"spec.template", "spec", false},
		"not what begins alike":        {"spec.replica", "spec.replicas", false},
		"every item":                   {"spec.containers[*].image", "spec.containers[3].image", true},
		"every item, but not all":      {"spec.containers[*].image", "spec.containers[3].name", false},
		"one item":                     {"spec.containers[1]", "spec.containers[1].name", true},
		"not another item":             {"spec.containers[1]", "spec.containers[0].name", false},
		"a name that has to be quoted": {`metadata.labels["a/b"]`, object.Path("metadata").Field("labels", "a/b"), true},
		"a name that needn't be":       {`spec["replicas"]`, "spec.replicas", true},
		"every key":                    {"metadata.annotations[*]", object.Path("metadata").Field("annotations", "a/b"), true},
	} {
		p, err := object.ParsePattern(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Covers(tc.field); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAPatternWithAnotherRoot(t *testing.T) {
	p, err := object.ParsePattern("stringData[*].x")
	if err != nil {
		t.Fatal(err)
	}
	if other := p.WithRoot("data"); !other.Covers("data.a.x") || other.Covers("stringData.a.x") || !p.Covers("stringData.a.x") {
		t.Error("the root is not replaced, or in the original")
	}
	if other := (object.Pattern{}).WithRoot("data"); other.Root() != "" {
		t.Error("a pattern of nothing selects something")
	}
}

func TestPatternMissing(t *testing.T) {
	document := decoded(t, `{spec: {replicas: 1, open: "${x}", containers: [{name: a}], none: []}}`)
	open := func(v any) bool { text, ok := v.(string); return ok && strings.Contains(text, "${") }
	for pattern, want := range map[string]string{
		"spec.replicas":           "",
		"spec":                    "",
		"spec.containers[*].name": "",
		"spec.containers[0]":      "",
		"spec[*]":                 "",
		"spec.open.anything[3]":   "",
		"spec.replcas":            "spec.replcas",
		"spec.containers[1].name": "spec.containers[1]",
		"spec.containers.name":    "spec.containers.name",
		"spec.containers[*].nam":  "spec.containers[0].nam",
		"spec.none[*]":            "spec.none[*]",
		"spec.replicas.more":      "spec.replicas.more",
		"status":                  "status",
	} {
		p, err := object.ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if at, _, missing := p.Missing(document, open); string(at) != want || missing != (want != "") {
			t.Errorf("%s: %q", pattern, at)
		}
	}
}

func TestWithout(t *testing.T) {
	const before = `{metadata: {name: x, annotations: {a/b: c}}, spec: {replicas: 1, list: [{a: 1}, {b: 2, c: 3}, {d: 4}], empty: {}}}`
	for name, tc := range map[string]struct {
		fields []object.Path
		want   string
	}{
		"nothing":             {nil, before},
		"what isn't there":    {[]object.Path{"spec.other", "spec.list[7]", "spec.replicas.x", "", "a b"}, before},
		"a field":             {[]object.Path{"spec.replicas"}, `{metadata: {name: x, annotations: {a/b: c}}, spec: {list: [{a: 1}, {b: 2, c: 3}, {d: 4}], empty: {}}}`},
		"the only one":        {[]object.Path{`metadata.annotations["a/b"]`}, `{metadata: {name: x}, spec: {replicas: 1, list: [{a: 1}, {b: 2, c: 3}, {d: 4}], empty: {}}}`},
		"items, in any order": {[]object.Path{"spec.list[0]", "spec.list[2]", "spec.list[1].b"}, `{metadata: {name: x, annotations: {a/b: c}}, spec: {replicas: 1, list: [{c: 3}], empty: {}}}`},
		"everything":          {[]object.Path{"metadata", "spec"}, `{}`},
	} {
		document := decoded(t, before)
		got := object.WithoutFields(document, tc.fields)
		if diff := cmp.Diff(decoded(t, tc.want), got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if diff := cmp.Diff(decoded(t, before), document); diff != "" {
			t.Errorf("%s changes what it was given:\n%s", name, diff)
		}
	}
}

func TestAt(t *testing.T) {
	document := decoded(t, `{spec: {list: [{a: x}]}, metadata: {labels: {a/b: z}}}`)
	for field, want := range map[object.Path]any{
		"spec.list[0].a": "x", `metadata.labels["a/b"]`: "z",
		"spec.list[1].a": nil, "spec.list.a": nil, "spec.list[0].a.b": nil, "nothing": nil, "a b": nil,
	} {
		if got := object.ValueAt(document, field); got != want {
			t.Errorf("%s: %v", field, got)
		}
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
