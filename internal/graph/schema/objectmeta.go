package schema

import (
	"maps"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// WithObjectMeta returns the schema of a resource in which apiVersion and kind are strings and metadata has all
// fields of ObjectMeta. CustomResourceDefinitions only say that metadata is an object, though the API server
// validates it as ObjectMeta.
//
// Times have the format date-time, as in the API server's own schemas, so expressions see them as timestamps. The
// result shares the other fields with s, which is not changed, and metadata with all other results: its fields must
// not be changed.
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
	out.Properties["apiVersion"] = stringSchema()
	out.Properties["kind"] = stringSchema()
	out.Properties["metadata"] = sharedObjectMeta()
	return &out
}

// sharedObjectMeta returns one schema each time: every definition keeps the schemas of its resources.
var sharedObjectMeta = sync.OnceValue(objectMeta)

func objectMeta() spec.Schema {
	return objectSchema(map[string]spec.Schema{
		"name":                       stringSchema(),
		"generateName":               stringSchema(),
		"namespace":                  stringSchema(),
		"uid":                        stringSchema(),
		"resourceVersion":            stringSchema(),
		"selfLink":                   stringSchema(),
		"generation":                 scalarSchema("integer", "int64"),
		"creationTimestamp":          scalarSchema("string", "date-time"),
		"deletionTimestamp":          scalarSchema("string", "date-time"),
		"deletionGracePeriodSeconds": scalarSchema("integer", "int64"),
		"labels":                     stringMapSchema(),
		"annotations":                stringMapSchema(),
		"finalizers":                 listSchema(stringSchema(), "set"),
		"ownerReferences":            listSchema(ownerReference(), "map", "uid"),
		"managedFields":              listSchema(managedFields(), "atomic"),
	})
}

func ownerReference() spec.Schema {
	s := objectSchema(map[string]spec.Schema{
		"apiVersion":         stringSchema(),
		"kind":               stringSchema(),
		"name":               stringSchema(),
		"uid":                stringSchema(),
		"controller":         scalarSchema("boolean", ""),
		"blockOwnerDeletion": scalarSchema("boolean", ""),
	})
	s.Required = []string{"apiVersion", "kind", "name", "uid"}
	return s
}

func managedFields() spec.Schema {
	owned := objectSchema(nil)
	owned.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	return objectSchema(map[string]spec.Schema{
		"manager":     stringSchema(),
		"operation":   stringSchema(),
		"apiVersion":  stringSchema(),
		"time":        scalarSchema("string", "date-time"),
		"fieldsType":  stringSchema(),
		"fieldsV1":    owned,
		"subresource": stringSchema(),
	})
}

func stringSchema() spec.Schema { return scalarSchema("string", "") }

func scalarSchema(typ, format string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{typ}, Format: format}}
}

func objectSchema(fields map[string]spec.Schema) spec.Schema {
	s := scalarSchema("object", "")
	s.Properties = fields
	return s
}

func stringMapSchema() spec.Schema {
	s, values := scalarSchema("object", ""), stringSchema()
	s.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &values}
	return s
}

func listSchema(items spec.Schema, listType string, keys ...any) spec.Schema {
	s := scalarSchema("array", "")
	s.Items = &spec.SchemaOrArray{Schema: &items}
	s.AddExtension("x-kubernetes-list-type", listType)
	if len(keys) > 0 {
		s.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	return s
}
