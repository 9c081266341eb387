package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// rewritten is a schema that was written in SimpleSchema and parsed again.
func rewritten(t *testing.T, s *extv1.JSONSchemaProps) *extv1.JSONSchemaProps {
	t.Helper()
	written := schema.Write(s, "spec")
	if len(written.Lost) > 0 {
		t.Fatalf("something is lost: %v\n%s", written.Lost.Err(), golden.YAML(t, s))
	}
	text := map[string]any{"spec": written.Spec, "types": written.Types}
	again, problems := schema.Parse(written.Spec, "spec.schema.spec", schema.Options{Types: written.Types, TypesPath: "spec.schema.types"})
	if len(problems) > 0 {
		t.Fatalf("cannot parse what was written: %v\n%s", problems.Err(), golden.YAML(t, text))
	}
	return again
}

func TestWhatIsWrittenIsParsedToTheSameSchema(t *testing.T) {
	compared := 0
	for _, a := range golden.Read(t, "testdata/parse/*.txtar") {
		var spec, types map[string]any
		decode(t, a.Input["spec.yaml"], &spec)
		decode(t, a.Input["types.yaml"], &types)
		s, problems := schema.Parse(spec, "spec.schema.spec", schema.Options{Types: types, TypesPath: "spec.schema.types"})
		if len(problems) > 0 {
			continue
		}
		t.Run(a.Path, func(t *testing.T) {
			if diff := cmp.Diff(s, rewritten(t, s)); diff != "" {
				t.Errorf("-parsed +written and parsed again:\n%s", diff)
			}
		})
		compared++
	}
	if compared < 4 {
		t.Errorf("%d schemas were compared", compared)
	}
}

func TestTextsOfSchemasAreWrittenExactly(t *testing.T) {
	for name, text := range map[string]string{
		"quotes": `the "best" of 'all'`, "lines": "first\nsecond\n\n  indented", "a backslash": `C:\dir\new`, "a bar": "a | b = c", "a comma": "a, b", "a tab": "a\tb",
	} {
		t.Run(name, func(t *testing.T) {
			s := &extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{
				"described": {Type: "string", Description: text},
				"default":   {Type: "string", Default: &extv1.JSON{Raw: []byte(quotedJSON(t, text))}},
			}}
			got := rewritten(t, s)
			if d := got.Properties["described"].Description; d != text {
				t.Errorf("the description is %q, want %q", d, text)
			}
			if d := got.Properties["default"].Default; d == nil || string(d.Raw) != quotedJSON(t, text) {
				t.Errorf("the default is %v, want %q", d, text)
			}
		})
	}
}

func TestWhatSimpleSchemaLacksIsReported(t *testing.T) {
	one := 1.0
	many := int64(3)
	s := &extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{
		"either":   {XIntOrString: true},
		"multiple": {Type: "integer", MultipleOf: &one},
		"few":      {Type: "object", MaxProperties: &many, AdditionalProperties: &extv1.JSONSchemaPropsOrBool{Schema: &extv1.JSONSchemaProps{Type: "string"}}},
		"choice":   {Type: "string", Enum: []extv1.JSON{{Raw: []byte(`"a,b"`)}}},
		"rule":     {Type: "string", XValidations: extv1.ValidationRules{{Rule: "self != ''", MessageExpression: "'is needed'"}}},
	}}
	got := schema.Write(s, "spec").Lost.Err().Error()
	for _, want := range []string{
		"spec.either: has no type", "spec.multiple: SimpleSchema has no multipleOf", "spec.few: SimpleSchema has no maxProperties",
		"spec.choice: an enum", "spec.rule: the message expression",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

func quotedJSON(t *testing.T, text string) string {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
