package resourcetype_test

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

func TestExclusions(t *testing.T) {
	const properties = `"properties": {"A": {"type": "object"}, "B": {"type": "string"}, "C": {"type": "string"}}`
	cases := map[string]struct{ schema, want string }{
		"nothing":                     {properties, "[]"},
		"just one of several":         {properties + `, "requiredXor": ["C", "B"]`, "[{[C B] [] false}]"},
		"one of alternatives":         {properties + `, "oneOf": [{"required": ["A"]}, {"required": ["B"]}]`, "[{[A B] [] true}]"},
		"alternatives of several":     {properties + `, "oneOf": [{"required": ["A", "C"]}, {"required": ["B"]}]`, "[]"},
		"alternatives of the same":    {properties + `, "oneOf": [{"required": ["A"]}, {"required": ["A"]}]`, "[]"},
		"each other, simple first":    {properties + `, "dependentExcluded": {"A": ["B"], "B": ["A"]}`, "[{[B A] [] false}]"},
		"one that excludes others":    {properties + `, "dependentExcluded": {"A": ["C", "B"]}`, "[{[A] [B C] false}]"},
		"one of them in both ways":    {properties + `, "dependentExcluded": {"B": ["C", "A"], "C": ["B"]}`, "[{[B C] [] false} {[B] [A] false}]"},
		"a schema of other ones":      {`"allOf": [{` + properties + `, "requiredXor": ["A", "B"]}]`, "[{[A B] [] false}]"},
		"an alternative of a schema":  {`"anyOf": [{` + properties + `, "requiredXor": ["A", "B"]}]`, "[]"},
		"a schema that contains self": {`"allOf": [{"$ref": "#/definitions/Self"}]`, "[]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			typ, err := resourcetype.Parse([]byte(`{"typeName": "AWS::Test::Thing", "primaryIdentifier": ["/properties/B"],
				"definitions": {"Self": {"allOf": [{"$ref": "#/definitions/Self"}]}}, ` + tc.schema + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(typ.AllExclusions(&typ.Schema)); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}

func TestReadableSecrets(t *testing.T) {
	typ, err := resourcetype.Parse([]byte(`{"typeName": "AWS::Test::Thing", "primaryIdentifier": ["/properties/Name"],
		"readOnlyProperties": ["/properties/ReadToken"], "writeOnlyProperties": ["/properties/Password"],
		"definitions": {"Login": {"type": "object", "properties": {"Secret": {"type": "string"}, "Again": {"$ref": "#/definitions/Login"}}}},
		"properties": {"Name": {"type": "string"}, "Password": {"type": "string"}, "ReadToken": {"type": "string"}, "AuthToken": {"type": "string"},
			"Mode": {"type": "object", "properties": {"Token": {"type": "string", "enum": ["a"]}, "Secret": {"type": "boolean"}}},
			"Logins": {"type": "array", "items": {"$ref": "#/definitions/Login"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(resourcetype.ReadableSecretPaths(typ)); got != "[AuthToken Logins.*.Secret]" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(resourcetype.SecretPaths(typ)); got != "[Password]" {
		t.Errorf("those that are write-only: got %s", got)
	}
}
