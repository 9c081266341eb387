// Package jsonschema makes JSON Schemas of the schemas of kinds, for editors and for programs that check manifests. A schema is of
// draft 7, which all of them read, and refers to no other file.
//
// Pure: it decides from values alone.
package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Of returns the JSON Schema of a kind's objects. Like the API server in its strict validation, it accepts no fields
// that the schema does not have, except in objects that may have any. metadata is the schema of the objects' metadata,
// for kinds whose schema has none.
func Of(kind schema.GroupVersionKind, s, metadata *spec.Schema) (map[string]any, error) {
	object, err := decode(s)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", kind, err)
	}
	out := convert(object, true)
	out["$schema"] = "http://json-schema.org/draft-07/schema#"
	out["title"] = kind.Kind + " of " + kind.GroupVersion().String()
	properties, _ := out["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		out["properties"] = properties
	}
	properties["apiVersion"] = map[string]any{"const": kind.GroupVersion().String()}
	properties["kind"] = map[string]any{"const": kind.Kind}
	if own, ok := properties["metadata"].(map[string]any); (!ok || own["properties"] == nil) && metadata != nil {
		general, err := decode(metadata)
		if err != nil {
			return nil, fmt.Errorf("the schema of metadata: %w", err)
		}
		properties["metadata"] = convert(general, true)
	}
	out["required"] = required(out["required"], "apiVersion", "kind")
	return out, nil
}

func decode(s *spec.Schema) (out map[string]any, err error) {
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

// Keywords that have the same meaning in both languages, by what their values are.
var (
	plain = []string{"description", "format", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf", "minItems", "maxItems",
		"uniqueItems", "minProperties", "maxProperties", "required", "default"}
	lists = []string{"allOf", "anyOf", "oneOf"}
)

// A closed schema accepts no unknown fields; branches of other schemas are open, because they describe a part of the
// fields.
func convert(in map[string]any, closed bool) map[string]any {
	out := map[string]any{}
	for _, name := range plain {
		if value, ok := in[name]; ok {
			out[name] = value
		}
	}
	for _, name := range lists {
		if all, ok := in[name].([]any); ok {
			out[name] = convertAll(all)
		}
	}
	if not, ok := in["not"].(map[string]any); ok {
		out["not"] = convert(not, false)
	}
	setBounds(in, out)
	setType(in, out)
	switch items := in["items"].(type) {
	case map[string]any:
		out["items"] = convert(items, closed)
	case bool:
		out["items"] = items
	}
	setFields(in, out, closed)
	return out
}

func convertAll(all []any) []any {
	out := make([]any, 0, len(all))
	for _, each := range all {
		if object, ok := each.(map[string]any); ok {
			out = append(out, convert(object, false))
		}
	}
	return out
}

// Exclusive bounds are booleans in OpenAPI and numbers in JSON Schema.
func setBounds(in, out map[string]any) {
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if in[exclusive] == true && in[bound] != nil {
			out[exclusive] = in[bound]
			delete(out, bound)
		}
	}
}

func setType(in, out map[string]any) {
	if isOf(in, "x-kubernetes-int-or-string") || in["format"] == "int-or-string" {
		out["type"] = []any{"integer", "string"}
		delete(out, "format")
		delete(out, "anyOf") // it says the same
	} else if of, ok := in["type"].(string); ok {
		out["type"] = of
	} else if of, ok := in["type"].([]any); ok && len(of) > 0 {
		out["type"] = of
	}
	if isOf(in, "nullable") {
		switch of := out["type"].(type) {
		case string:
			out["type"] = []any{of, "null"}
		case []any:
			out["type"] = append(slices.Clone(of), "null")
		}
		if values, ok := out["enum"].([]any); ok && !slices.Contains(values, nil) {
			out["enum"] = append(slices.Clone(values), nil)
		}
	}
}

// Properties that the schema lacks are allowed only where the API server keeps them.
func setFields(in, out map[string]any, closed bool) {
	properties, has := in["properties"].(map[string]any)
	if has {
		fields := make(map[string]any, len(properties))
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if field, ok := properties[name].(map[string]any); ok {
				fields[name] = convert(field, closed)
			}
		}
		out["properties"] = fields
	}
	switch more := in["additionalProperties"].(type) {
	case map[string]any:
		out["additionalProperties"] = convert(more, closed)
	case bool:
		out["additionalProperties"] = more
	default:
		if has && closed && !isOf(in, "x-kubernetes-preserve-unknown-fields") {
			out["additionalProperties"] = false
		}
	}
	if isOf(in, "x-kubernetes-embedded-resource") {
		delete(out, "additionalProperties")
		out["required"] = required(out["required"], "apiVersion", "kind")
	}
}

func isOf(in map[string]any, keyword string) bool { return in[keyword] == true }

func required(list any, names ...string) []any {
	out, _ := list.([]any)
	out = slices.Clone(out)
	for _, name := range names {
		if !slices.Contains(out, any(name)) {
			out = append(out, name)
		}
	}
	return out
}
