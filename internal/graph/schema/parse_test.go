package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

func TestLimitsAreNamed(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   map[string]any
		types  map[string]any
		want   diag.List
	}{
		"thirty-two levels are allowed": {
			reason: "the limit itself is still within",
			spec:   nested(32),
		},
		"objects in objects": {
			reason: "the first level too deep is named, and nothing below it",
			spec:   nested(40),
			want: diag.List{{
				Path:    "spec.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a",
				Problem: "the schema is nested too deeply; at most 32 levels are allowed",
			}},
		},
		"lists in lists": {
			reason: "a type is as deep as it is written",
			spec:   map[string]any{"a": strings.Repeat("[]", 40) + "string"},
			want: diag.List{{
				Path: "spec.a", Expr: strings.Repeat("[]", 40) + "string",
				Problem: "the type is nested too deeply; at most 32 levels are allowed",
			}},
		},
		"types in types": {
			reason: "a type counts with all that is below it",
			spec:   map[string]any{"a": "[][]T"},
			types:  map[string]any{"T": nested(30)},
			want:   diag.List{{Path: "spec.a", Problem: "the schema is nested too deeply; at most 32 levels are allowed"}},
		},
		"types that double with each level": {
			reason: "a few lines may not ask for a million fields",
			spec:   map[string]any{"a": "T19"},
			types:  doubling(20),
			want: diag.List{{
				Path: "types.T12.b", Problem: "the schema has too many fields; at most 4096 are allowed, with types expanded",
			}},
		},
		"a long field": {
			reason: "a text is measured before it is read",
			spec:   map[string]any{"a": "string | description=" + strings.Repeat("x", 16<<10)},
			want:   diag.List{{Path: "spec.a", Problem: "the SimpleSchema of the field is too long: 16405 bytes; at most 16384 are allowed"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, got := schema.Parse(tc.spec, "spec", schema.Options{Types: tc.types, TypesPath: "types"})
			if tc.want == nil && len(got) == 0 {
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// nested is an object with the given number of levels below it.
func nested(levels int) map[string]any {
	var inner any = "string"
	for range levels - 1 {
		inner = map[string]any{"a": inner}
	}
	return map[string]any{"a": inner}
}

// doubling are types each of which uses the one before it twice.
func doubling(n int) map[string]any {
	types := map[string]any{"T0": "string"}
	for i := 1; i < n; i++ {
		before := fmt.Sprintf("T%d", i-1)
		types[fmt.Sprintf("T%d", i)] = map[string]any{"a": before, "b": before}
	}
	return types
}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	spec, types := map[string]any{}, map[string]any{}
	for i := range 20 {
		spec[fmt.Sprint("field", i)] = fmt.Sprintf("T%d | required=true", i)
		types[fmt.Sprint("T", i)] = map[string]any{"x": fmt.Sprintf("[]T%d", (i+1)%20), "y": "strin"}
	}
	say := func() string {
		s, problems := schema.Parse(spec, "spec", schema.Options{Types: types, TypesPath: "types"})
		return golden.YAML(t, s) + problems.Err().Error()
	}
	first := say()
	if n := strings.Count(first, "cycle:"); n != 1 {
		t.Errorf("the cycle is reported %d times:\n%s", n, first)
	}
	for range 20 {
		if diff := cmp.Diff(first, say()); diff != "" {
			t.Fatalf("not the same (-first +again):\n%s", diff)
		}
	}
}

func TestParseReturnsTheValidPartsDespiteProblems(t *testing.T) {
	s, problems := schema.Parse(map[string]any{"good": "string", "bad": "strng | required=true"}, "spec", schema.Options{})
	if len(problems) != 1 {
		t.Fatalf("one problem was expected: %v", problems)
	}
	if got := s.Properties["good"].Type; got != "string" {
		t.Errorf("good has type %q", got)
	}
	if bad := s.Properties["bad"]; bad.XPreserveUnknownFields == nil || !*bad.XPreserveUnknownFields {
		t.Errorf("bad should hold anything: %+v", bad)
	}
}

func TestOffsetsPointIntoTheShorthand(t *testing.T) {
	cases := map[string]struct {
		text string
		want string // what the offset points at
	}{
		"a type":              {"  []map[string]Nope | required=true", "Nope | required=true"},
		"a marker's name":     {"string | required=true nope=1", "nope=1"},
		"a marker's value":    {"string |\trequired = maybe", " maybe"},
		"a default":           {`integer | description="é" default=x`, "x"},
		"an open quote":       {`string | default="x`, `"x`},
		"an open bracket":     {`object | default={"a":[1}`, `{"a":[1}`},
		"a forgotten divider": {"string required=true", " required=true"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := schema.Parse(map[string]any{"f": tc.text}, "spec", schema.Options{})
			if len(problems) != 1 {
				t.Fatalf("one problem was expected: %v", problems)
			}
			d := problems[0]
			if diff := cmp.Diff(tc.want, d.Expr[d.Offset:]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", d, diff)
			}
		})
	}
}
