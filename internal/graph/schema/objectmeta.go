package schema

import (
	"maps"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// WithObjectMeta is a resource's schema in which apiVersion and kind are strings
// and metadata has all its fields, typed. Custom resource definitions only say
// that metadata is an object, though the API server holds it to ObjectMeta.
//
// Times have the format date-time, as in the API server's own schemas, so that
// expressions see them as timestamps. The result shares the other fields with s;
// s isn't changed.
func WithObjectMeta(s *spec.Schema) *spec.Schema {
	out := spec.Schema{}
	if s != nil {
		out = *s
	}
	out.Type = spec.StringOrArray{"object"}
	out.Properties = make(map[string]spec.Schema, len(out.Properties)+3)
	if s != nil {
		maps.Copy(out.Properties, s.Properties)
	}
	out.Properties["apiVersion"] = text()
	out.Properties["kind"] = text()
	out.Properties["metadata"] = objectMeta()
	return &out
}

func objectMeta() spec.Schema {
	return structure(map[string]spec.Schema{
		"name":                       text(),
		"generateName":               text(),
		"namespace":                  text(),
		"uid":                        text(),
		"resourceVersion":            text(),
		"selfLink":                   text(),
		"generation":                 scalar("integer", "int64"),
		"creationTimestamp":          scalar("string", "date-time"),
		"deletionTimestamp":          scalar("string", "date-time"),
		"deletionGracePeriodSeconds": scalar("integer", "int64"),
		"labels":                     texts(),
		"annotations":                texts(),
		"finalizers":                 listOf(text(), "set"),
		"ownerReferences":            listOf(ownerReference(), "map", "uid"),
		"managedFields":              listOf(managedFields(), "atomic"),
	})
}

func ownerReference() spec.Schema {
	s := structure(map[string]spec.Schema{
		"apiVersion":         text(),
		"kind":               text(),
		"name":               text(),
		"uid":                text(),
		"controller":         scalar("boolean", ""),
		"blockOwnerDeletion": scalar("boolean", ""),
	})
	s.Required = []string{"apiVersion", "kind", "name", "uid"}
	return s
}

func managedFields() spec.Schema {
	owned := structure(nil)
	owned.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	return structure(map[string]spec.Schema{
		"manager":     text(),
		"operation":   text(),
		"apiVersion":  text(),
		"time":        scalar("string", "date-time"),
		"fieldsType":  text(),
		"fieldsV1":    owned,
		"subresource": text(),
	})
}

func text() spec.Schema { return scalar("string", "") }

func scalar(typ, format string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{typ}, Format: format}}
}

func structure(fields map[string]spec.Schema) spec.Schema {
	s := scalar("object", "")
	s.Properties = fields
	return s
}

// texts is a map of strings to strings.
func texts() spec.Schema {
	s, values := scalar("object", ""), text()
	s.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &values}
	return s
}

func listOf(items spec.Schema, listType string, keys ...any) spec.Schema {
	s := scalar("array", "")
	s.Items = &spec.SchemaOrArray{Schema: &items}
	s.AddExtension("x-kubernetes-list-type", listType)
	if len(keys) > 0 {
		s.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	return s
}
