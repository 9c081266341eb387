package schema_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"

	"github.com/espalier-dev/espalier/internal/graph/schema"
)

// FuzzParse holds Parse to its promise: it never panics, every problem has a
// place, and what has no problems is structural and has valid defaults.
func FuzzParse(f *testing.F) {
	for _, seed := range [][2]string{
		{"string | required=true default=\"a b\" pattern=^a", "integer | minimum=1"},
		{"[]map[string]T | minItems=1 default=[{\"a\":1}]", "float | default=0.5"},
		{"integer | enum=1,2 default=2 immutable=true", "object | default={\"a\":{}}"},
		{"[]string | uniqueItems=true listType=set maxItems=3", "[]boolean | default=[true]"},
		{"U | default={\"x\":1,\"y\":\"z\"}", "string | minLength=1 maxLength=2 default=ab"},
		{"[]U | listType=map listMapKey=y default=[{\"y\":\"a\"}]", "T"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, field, typ string) {
		spec := map[string]any{"a": field, "b": map[string]any{"c": field, "t": "T", "u": "[]U"}}
		types := map[string]any{"T": typ, "U": map[string]any{"x": "T", "y": "string | required=true"}}
		s, problems := schema.Parse(spec, "spec", schema.Options{Types: types, TypesPath: "types"})
		for _, d := range problems {
			if d.Path == "" || d.Problem == "" || d.Offset < 0 || d.Offset > len(d.Expr) {
				t.Fatalf("a problem without a place: %+v", d)
			}
		}
		if len(problems) > 0 {
			return
		}
		ss := mustBeStructural(t, s)
		if strings.Contains(field+typ, "validation") {
			// Whether rules compile is not for Parse to say.
			return
		}
		if errs, err := defaulting.ValidateDefaults(context.Background(), nil, ss, true, true); err != nil || len(errs) > 0 {
			t.Fatalf("%q, %q: defaults: %v %v", field, typ, err, errs.ToAggregate())
		}
		if changes := schema.Compare(s, s.DeepCopy(), "spec"); len(changes) > 0 {
			t.Fatalf("it differs from itself: %v", changes)
		}
	})
}
