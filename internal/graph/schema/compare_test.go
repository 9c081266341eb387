package schema_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/graph/schema"
)

type props = extv1.JSONSchemaProps

func ptr[T any](v T) *T { return &v }

func breaking(what string) []schema.Change {
	return []schema.Change{{Path: "spec", Breaking: true, Description: what}}
}

func harmless(what string) []schema.Change { return []schema.Change{{Path: "spec", Description: what}} }

func of(s props) *extv1.JSONSchemaPropsOrBool { return &extv1.JSONSchemaPropsOrBool{Schema: &s} }

func itemsOf(s props) *extv1.JSONSchemaPropsOrArray { return &extv1.JSONSchemaPropsOrArray{Schema: &s} }

// TestCompare covers what SimpleSchema cannot say; testdata/compare has the rest.
func TestCompare(t *testing.T) {
	object := props{Type: "object"}
	cases := map[string]struct {
		old, new *props
		want     []schema.Change
	}{
		"nothing is no change":                      {nil, nil, nil},
		"a schema where there was none":             {nil, &object, harmless("schema added")},
		"no schema where there was one":             {&object, nil, breaking("schema removed")},
		"a description is only words":               {&object, &props{Type: "object", Description: "x", Title: "y"}, nil},
		"null becomes welcome":                      {&object, &props{Type: "object", Nullable: true}, harmless("may be null")},
		"null is refused":                           {&props{Type: "object", Nullable: true}, &object, breaking("may no longer be null")},
		"a format is demanded":                      {&props{Type: "string"}, &props{Type: "string", Format: "uuid"}, breaking(`format "uuid" added`)},
		"a format is dropped":                       {&props{Type: "string", Format: "uuid"}, &props{Type: "string"}, harmless(`format "uuid" removed`)},
		"a pattern is dropped":                      {&props{Type: "string", Pattern: "^a"}, &props{Type: "string"}, harmless(`pattern "^a" removed`)},
		"an integer may also be text":               {&props{Type: "integer"}, &props{XIntOrString: true}, breaking("type changed from integer to int-or-string")},
		"anything becomes typed":                    {&props{XPreserveUnknownFields: ptr(true)}, &object, breaking("type changed from anything to object")},
		"unknown fields become welcome":             {&object, &props{Type: "object", XPreserveUnknownFields: ptr(true)}, harmless("unknown fields are kept")},
		"a limit excludes itself":                   {&props{Type: "integer", Minimum: ptr(1.0)}, &props{Type: "integer", Minimum: ptr(1.0), ExclusiveMinimum: true}, breaking("minimum changed from 1 to 1 (exclusive)")},
		"a limit includes itself":                   {&props{Type: "integer", Maximum: ptr(1.0), ExclusiveMaximum: true}, &props{Type: "integer", Maximum: ptr(1.0)}, harmless("maximum changed from 1 (exclusive) to 1")},
		"fewer properties are allowed":              {&object, &props{Type: "object", MaxProperties: ptr(int64(1000000))}, breaking("maxProperties 1000000 added")},
		"multiples of a divisor":                    {&props{Type: "integer", MultipleOf: ptr(4.0)}, &props{Type: "integer", MultipleOf: ptr(2.0)}, harmless("multipleOf changed from 4 to 2")},
		"multiples of another number":               {&props{Type: "integer", MultipleOf: ptr(4.0)}, &props{Type: "integer", MultipleOf: ptr(3.0)}, breaking("multipleOf changed from 4 to 3")},
		"a map of a type becomes one of anything":   {&props{Type: "object", AdditionalProperties: of(object)}, &props{Type: "object", AdditionalProperties: &extv1.JSONSchemaPropsOrBool{Allows: true}}, harmless("values of the map may be anything")},
		"a map of anything becomes one of a type":   {&props{Type: "object", AdditionalProperties: &extv1.JSONSchemaPropsOrBool{Allows: true}}, &props{Type: "object", AdditionalProperties: of(object)}, breaking("values of the map became typed")},
		"a map is no longer one":                    {&props{Type: "object", AdditionalProperties: of(object)}, &object, breaking("no longer a map")},
		"an empty object becomes a map":             {&object, &props{Type: "object", AdditionalProperties: of(object)}, harmless("became a map")},
		"an atomic list is one that says nothing":   {&props{Type: "array", XListType: ptr("atomic")}, &props{Type: "array"}, nil},
		"a map merged as a whole":                   {&object, &props{Type: "object", XMapType: ptr("atomic")}, breaking("map type changed from granular to atomic")},
		"another key":                               {&props{Type: "array", XListMapKeys: []string{"a"}}, &props{Type: "array", XListMapKeys: []string{"a", "b"}}, breaking("list keys changed from a to a, b")},
		"items become typed":                        {&props{Type: "array"}, &props{Type: "array", Items: itemsOf(object)}, breaking("items of the list became typed")},
		"items change":                              {&props{Type: "array", Items: itemsOf(object)}, &props{Type: "array", Items: itemsOf(props{Type: "string"})}, []schema.Change{{Path: "spec[]", Breaking: true, Description: "type changed from object to string"}}},
		"a name that is no field is required":       {&props{Type: "object"}, &props{Type: "object", Required: []string{"a"}}, []schema.Change{{Path: "spec.a", Breaking: true, Description: "became required"}}},
		"a field is added where anything was kept":  {&props{Type: "object", XPreserveUnknownFields: ptr(true)}, &props{Type: "object", XPreserveUnknownFields: ptr(true), Properties: map[string]props{"a": object}}, []schema.Change{{Path: "spec.a", Breaking: true, Description: "field added"}}},
		"a rule looks at the past":                  {&props{Type: "object", XValidations: extv1.ValidationRules{{Rule: "r"}}}, &props{Type: "object", XValidations: extv1.ValidationRules{{Rule: "r", OptionalOldSelf: ptr(true)}}}, []schema.Change{{Path: "spec", Description: `rule "r" removed`}, {Path: "spec", Breaking: true, Description: `rule "r" added`}}},
		"a rule says it better":                     {&props{Type: "object", XValidations: extv1.ValidationRules{{Rule: "r"}}}, &props{Type: "object", XValidations: extv1.ValidationRules{{Rule: "r", Message: "m"}}}, nil},
		"an embedded resource":                      {&object, &props{Type: "object", XEmbeddedResource: true}, breaking("became an embedded resource")},
		"a combination that is not understood":      {&object, &props{Type: "object", AnyOf: []props{object}}, breaking("anyOf changed")},
		"something that nobody thought of":          {&object, &props{Type: "object", UniqueItems: true}, breaking("the schema changed in an unknown way")},
		"defaults are told and do not break":        {&props{Type: "string", Default: &extv1.JSON{Raw: []byte(`"a"`)}}, &props{Type: "string"}, harmless(`default "a" removed`)},
		"the same number written in the same sense": {&props{Type: "object", Default: &extv1.JSON{Raw: []byte(`{"a": 1, "b": 2}`)}}, &props{Type: "object", Default: &extv1.JSON{Raw: []byte(`{"b":2,"a":1}`)}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := schema.Compare(tc.old, tc.new, "spec")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestASchemaDoesNotDifferFromItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySchema(3).Draw(t, "schema")
		if got := schema.Compare(&s, s.DeepCopy(), "spec"); len(got) > 0 {
			t.Fatalf("%v", got)
		}
	})
}

func TestWhatIsAddedOneWayIsRemovedTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySchema(3).Draw(t, "a"), anySchema(3).Draw(t, "b")
		there, back := schema.Compare(&a, &b, "spec"), schema.Compare(&b, &a, "spec")
		if (len(there) == 0) != (len(back) == 0) {
			t.Fatalf("%v there, but back %v", there, back)
		}
		for _, c := range there {
			if c.Description == "field removed" && !addedAt(back, c) {
				t.Fatalf("%s, but back only %v", c, back)
			}
		}
	})
}

func addedAt(changes []schema.Change, removed schema.Change) bool {
	for _, c := range changes {
		if c.Path == removed.Path && (c.Description == "field added" || c.Description == "required field added without a default") {
			return true
		}
	}
	return false
}

func TestAddingOptionalFieldsNeverBreaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := props{Type: "object", Properties: map[string]props{"a": anySchema(2).Draw(t, "a")}}
		grown := old.DeepCopy()
		grown.Properties["b"] = anySchema(2).Draw(t, "b")
		for _, c := range schema.Compare(&old, grown, "spec") {
			if c.Breaking {
				t.Fatalf("%s", c)
			}
		}
	})
}

// anySchema generates schemas at most depth levels deep.
func anySchema(depth int) *rapid.Generator[props] {
	return rapid.Custom(func(t *rapid.T) props {
		kinds := []string{"string", "integer", "boolean", "array", "object", "map"}
		if depth == 0 {
			kinds = kinds[:3]
		}
		s := props{Type: rapid.SampledFrom(kinds).Draw(t, "type")}
		if rapid.Bool().Draw(t, "rule") {
			s.XValidations = extv1.ValidationRules{{Rule: rapid.SampledFrom([]string{"a", "self == oldSelf"}).Draw(t, "text")}}
		}
		switch s.Type {
		case "string":
			for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{`"a"`, `"b"`, `"c"`}), 0, 3, rapid.ID[string]).Draw(t, "enum") {
				s.Enum = append(s.Enum, extv1.JSON{Raw: []byte(v)})
			}
			s.Pattern = rapid.SampledFrom([]string{"", "^a", "b$"}).Draw(t, "pattern")
		case "integer":
			s.Minimum = rapid.Ptr(rapid.SampledFrom([]float64{0, 1, 2}), true).Draw(t, "minimum")
			s.Default = &extv1.JSON{Raw: fmt.Append(nil, rapid.IntRange(0, 2).Draw(t, "default"))}
		case "array":
			items := anySchema(depth-1).Draw(t, "items")
			s.Items = itemsOf(items)
			s.MaxItems = rapid.Ptr(rapid.Int64Range(1, 3), true).Draw(t, "maxItems")
		case "map":
			s.Type = "object"
			values := anySchema(depth-1).Draw(t, "values")
			s.AdditionalProperties = of(values)
		case "object":
			s.Properties = map[string]props{}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "names") {
				s.Properties[name] = anySchema(depth-1).Draw(t, name)
				if rapid.Bool().Draw(t, "required") {
					s.Required = append(s.Required, name)
				}
			}
		}
		return s
	})
}
