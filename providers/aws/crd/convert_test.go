package crd

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// convertProperty converts a type with one property, X.
func convertProperty(t *testing.T, property string) (apiextensionsv1.JSONSchemaProps, []Loss) {
	t.Helper()
	found, err := resourcetype.Parse([]byte(`{"typeName": "AWS::Test::Thing", "primaryIdentifier": ["/properties/Id"],
		"readOnlyProperties": ["/properties/Id"], "properties": {"Id": {"type": "string"}, "X": ` + property + `},
		"definitions": {"Node": {"type": "object", "properties": {"Next": {"$ref": "#/definitions/Node"}, "Name": {"type": "string"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	object := apiextensionsv1.JSONSchemaProps{Type: "object"}
	c := converter{t: found, siblings: newSiblings(found, template{ref: object, selector: object, secret: object})}
	return c.convert().Properties["X"], sorted(c.losses)
}

func TestProperties(t *testing.T) {
	cases := map[string]struct{ schema, want, lost string }{
		"an enumeration":          {`{"type": "string", "enum": ["a", "b", "a"]}`, `{"type":"string","enum":["a","b"]}`, ""},
		"one in any case":         {`{"type": "string", "enumCaseInsensitive": ["a", "b.c"]}`, `{"type":"string","pattern":"^(?i:a|b\\.c)$"}`, ""},
		"numbers":                 {`{"type": "integer", "minimum": 1, "maximum": 9, "format": "int64"}`, `{"type":"integer","format":"int64","maximum":9,"minimum":1}`, ""},
		"a Java pattern":          {`{"type": "string", "pattern": "^(?!aws).*$"}`, `{"type":"string"}`, "X: patterns"},
		"a large count":           {`{"type": "string", "pattern": "^[a-z{1,2048}]{1,2048}$"}`, `{"type":"string","pattern":"^[a-z{1,2048}]+$"}`, "X: counts in patterns"},
		"a JavaScript escape":     {`{"type": "string", "pattern": "[\\u0020-\\u007E]"}`, `{"type":"string","pattern":"[\\x{0020}-\\x{007E}]"}`, ""},
		"an unlimited length":     {`{"type": "string", "maxLength": 2147483647}`, `{"type":"string"}`, ""},
		"what a string names":     {`{"type": "string", "format": "AWS::EC2::Image.Id"}`, `{"type":"string"}`, ""},
		"a set":                   {`{"type": "array", "uniqueItems": true, "insertionOrder": false, "items": {"type": "string"}}`, `{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}`, ""},
		"a list of unique items":  {`{"type": "array", "uniqueItems": true, "items": {"type": "string"}}`, `{"type":"array","items":{"type":"string"}}`, "X: unique items"},
		"a map":                   {`{"type": "object", "patternProperties": {".*": {"type": "string"}}}`, `{"type":"object","additionalProperties":{"type":"string"}}`, ""},
		"a map with certain keys": {`{"type": "object", "patternProperties": {"^[a-z]$": {"type": "string"}}}`, `{"type":"object","additionalProperties":{"type":"string"}}`, "X: patterns of keys"},
		"a document":              {`{"type": "object"}`, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, ""},
		"a document in JSON":      {`{"format": "json", "minLength": 1, "pattern": "^.+$"}`, `{"x-kubernetes-preserve-unknown-fields":true}`, "X: any type"},
		"a document or its text":  {`{"type": ["object", "string"]}`, `{"x-kubernetes-preserve-unknown-fields":true}`, "X: any type"},
		"a number or a string":    {`{"oneOf": [{"type": "integer"}, {"type": "string"}]}`, `{"x-kubernetes-int-or-string":true}`, ""},
		"patterns of which one applies": {`{"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}`,
			`{"type":"string","anyOf":[{"pattern":"^a"},{"pattern":"^b"}]}`, ""},
		"recursion": {`{"$ref": "#/definitions/Node"}`,
			`{"type":"object","properties":{"Name":{"type":"string"},"Next":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, "X.Next: recursive schema"},
		"just one of two": {`{"type": "object", "properties": {"A": {"type": "string"}, "B": {"type": "string"}},
			"oneOf": [{"required": ["A"]}, {"required": ["B"]}]}`,
			`{"type":"object","oneOf":[{"required":["A"]},{"required":["B"]}],"properties":{"A":{"type":"string"},"B":{"type":"string"}}}`, ""},
		"alternatives with properties": {`{"type": "object", "oneOf": [
			{"properties": {"A": {"type": "string"}}, "required": ["A"]}, {"properties": {"B": {"type": "string"}}, "required": ["B"]}]}`,
			`{"type":"object","oneOf":[{"required":["A"]},{"required":["B"]}],"properties":{"A":{"type":"string"},"B":{"type":"string"}}}`, "X: alternatives"},
		"an alternative within another": {`{"type": "object", "properties": {"A": {"type": "string"}, "B": {"type": "string"}},
			"oneOf": [{"required": ["A"]}, {"required": ["A", "B"]}]}`,
			`{"type":"object","anyOf":[{"required":["A"]},{"required":["A","B"]}],"properties":{"A":{"type":"string"},"B":{"type":"string"}}}`, "X: exclusions"},
		"a required property with a reference": {`{"type": "object", "properties": {"VpcId": {"type": "string"}}, "required": ["VpcId"]}`,
			`{"type":"object","anyOf":[{"required":["VpcId"]},{"required":["VpcIdRef"]},{"required":["VpcIdSelector"]}],"properties":{"VpcId":{"type":"string"},` +
				`"VpcIdRef":{"description":"Sets VpcId to the identifier of the object with this name, of kind VPC (ec2.aws.espalier.dev).","type":"object"},` +
				`"VpcIdSelector":{"description":"Sets VpcId to the identifier of an object with these labels, of kind VPC (ec2.aws.espalier.dev).","type":"object"}}}`, ""},
		"properties that exclude each other": {`{"type": "object", "properties": {"A": {"type": "string"}, "B": {"type": "boolean"}}, "dependentExcluded": {"A": ["B"], "B": ["A"]}}`,
			`{"type":"object","properties":{"A":{"type":"string"},"B":{"type":"boolean"}},"x-kubernetes-validations":[{"rule":"[has(self.A), has(self.B) \u0026\u0026 self.B].filter(isSet, isSet).size() \u003c= 1",` +
				`"message":"only one of these can be set: A; B: they exclude each other"}]}`, ""},
		"one that excludes others": {`{"type": "object", "properties": {"A": {"type": "string"}, "B": {"type": "string"}}, "dependentExcluded": {"A": ["B"]}}`,
			`{"type":"object","properties":{"A":{"type":"string"},"B":{"type":"string"}},"x-kubernetes-validations":[{"rule":"!(has(self.A)) || !(has(self.B))",` +
				`"message":"A cannot be set beside B: they exclude each other"}]}`, ""},
		"such items of a list": {`{"type": "array", "items": {"type": "object", "properties": {"A": {"type": "string"}, "B": {"type": "string"}}, "requiredXor": ["A", "B"]}}`,
			`{"type":"array","items":{"type":"object","allOf":[{"anyOf":[{"required":["A"]},{"required":["B"]}]},` +
				`{"not":{"allOf":[{"anyOf":[{"required":["A"]}]},{"anyOf":[{"required":["B"]}]}]}}],"properties":{"A":{"type":"string"},"B":{"type":"string"}}}}`, ""},
		"a boolean of such items": {`{"type": "array", "items": {"type": "object", "properties": {"A": {"type": "string"}, "B": {"type": "boolean"}}, "dependentExcluded": {"A": ["B"]}}}`,
			`{"type":"array","items":{"type":"object","properties":{"A":{"type":"string"},"B":{"type":"boolean"}}}}`, "X.*: exclusions"},
		"a secret that AWS may return": {`{"type": "object", "properties": {"AuthToken": {"type": "string"}}}`,
			`{"type":"object","properties":{"AuthToken":{"type":"string"},"AuthTokenSecretRef":{"description":"Sets AuthToken to the value of this key of a Secret.","type":"object"}}}`, ""},
	}
	for name, tc := range cases {
		got, losses := convertProperty(t, tc.schema)
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var lost []string
		for _, loss := range losses {
			lost = append(lost, loss.Path.String()+": "+string(loss.What))
		}
		if string(raw) != tc.want || strings.Join(lost, ", ") != tc.lost {
			t.Errorf("%s:\nwant %s %q\ngot  %s %q", name, tc.want, tc.lost, raw, lost)
		}
	}
}

// TestDeepSchemas converts a schema that is wider with each level: it is cut where it becomes too large.
func TestDeepSchemas(t *testing.T) {
	schema := `{"type": "string"}`
	for range 8 {
		var properties []string
		for _, name := range []string{"A", "B", "C", "D"} {
			properties = append(properties, `"`+name+`": `+schema)
		}
		schema = `{"type": "object", "properties": {` + strings.Join(properties, ",") + `}}`
	}
	got, losses := convertProperty(t, schema)
	raw, err := json.Marshal(got)
	if err != nil || len(raw) > 200_000 || len(losses) == 0 {
		t.Errorf("%d bytes, %d losses: %v", len(raw), len(losses), err)
	}
	if slices.ContainsFunc(losses, func(loss Loss) bool { return loss.What != TooLarge }) {
		t.Errorf("got %v", losses)
	}
}

func TestNamesInExpressions(t *testing.T) {
	for name, want := range map[string]string{
		"VpcId": "VpcId", "namespace": "__namespace__", "a__b": "a__underscores__b", "a-b": "", "1a": "", "a_b": "a_b",
	} {
		if got := escape(name); got != want {
			t.Errorf("%s: want %q, got %q", name, want, got)
		}
	}
}

func TestLossesAreListedByKind(t *testing.T) {
	path := func(text string) resourcetype.Path { return strings.Split(text, ".") }
	losses := []Loss{{nil, Exclusion}, {path("A.B"), Pattern}, {path("C"), Pattern}, {path("D.*"), Pattern}, {path("E"), Unique}}
	cases := map[int]string{
		25: "exclusions: the properties together; patterns: A.B, C, D.*; unique items: E",
		4:  "exclusions: the properties together; patterns: A.B, C and 1 more; unique items: E",
		3:  "exclusions: the properties together; patterns: A.B and 2 more; unique items: E",
	}
	for limit, want := range cases {
		if got := List(losses, limit); got != want {
			t.Errorf("of %d: want %q, got %q", limit, want, got)
		}
	}
}
