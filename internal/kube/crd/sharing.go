package crd

import (
	"encoding/binary"
	"hash"
	"hash/fnv"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// SharedSchemas keeps one copy of equal parts of schemas. The kinds of all graph definitions have most of
// their status in common, for example, and a field takes more than half a kilobyte. The zero value is ready.
// It is not safe for concurrent use.
type SharedSchemas struct {
	properties map[uint64][]map[string]apiextensionsv1.JSONSchemaProps
	schemas    map[uint64][]*apiextensionsv1.JSONSchemaProps
	parts      int
}

// Len is the number of different parts, also of those that nothing uses any more.
func (s *SharedSchemas) Len() int { return s.parts }

// Share replaces the parts of a CustomResourceDefinition's schemas by equal ones of those before. Nothing else
// may use it yet, and from now on its schemas must not be changed.
func (s *SharedSchemas) Share(c *apiextensionsv1.CustomResourceDefinition) { s.each(c, true) }

// Add lets further CustomResourceDefinitions share the schemas of one that is in use, and does not change it.
func (s *SharedSchemas) Add(c *apiextensionsv1.CustomResourceDefinition) { s.each(c, false) }

func (s *SharedSchemas) each(c *apiextensionsv1.CustomResourceDefinition, replace bool) {
	for _, v := range c.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		if shared, _ := s.pointer(v.Schema.OpenAPIV3Schema, replace); replace {
			v.Schema.OpenAPIV3Schema = shared
		}
	}
}

// pointer returns a schema that is equal to p, and a hash that is the same for equal schemas.
func (s *SharedSchemas) pointer(p *apiextensionsv1.JSONSchemaProps, replace bool) (*apiextensionsv1.JSONSchemaProps, uint64) {
	key := s.within(p, replace)
	for _, same := range s.schemas[key] {
		if same == p || reflect.DeepEqual(same, p) {
			return same, key
		}
	}
	if s.schemas == nil {
		s.schemas = map[uint64][]*apiextensionsv1.JSONSchemaProps{}
	}
	s.schemas[key] = append(s.schemas[key], p)
	s.parts++
	return p, key
}

// within shares the parts of a schema and returns its hash. Schemas in anyOf and the like are rare, and
// are not shared.
func (s *SharedSchemas) within(p *apiextensionsv1.JSONSchemaProps, replace bool) uint64 {
	h := newHash()
	h.text(p.Type, p.Format, p.Pattern, p.Title, p.Description)
	h.text(p.Required...)
	if p.Properties != nil {
		shared, below := s.all(p.Properties, replace)
		if h.number(below); replace {
			p.Properties = shared
		}
	}
	if p.Items != nil && p.Items.Schema != nil {
		shared, below := s.pointer(p.Items.Schema, replace)
		if h.number(below); replace {
			p.Items.Schema = shared
		}
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		shared, below := s.pointer(p.AdditionalProperties.Schema, replace)
		if h.number(below); replace {
			p.AdditionalProperties.Schema = shared
		}
	}
	return h.Sum64()
}

// all is pointer for the properties of an object.
func (s *SharedSchemas) all(properties map[string]apiextensionsv1.JSONSchemaProps, replace bool) (map[string]apiextensionsv1.JSONSchemaProps, uint64) {
	var key uint64
	for name, p := range properties {
		h := newHash()
		h.text(name)
		h.number(s.within(&p, replace))
		if replace {
			properties[name] = p
		}
		key += h.Sum64() // in any order
	}
	for _, same := range s.properties[key] {
		// Parts below are shared already, so that this compares a single level.
		if reflect.DeepEqual(same, properties) {
			return same, key
		}
	}
	if s.properties == nil {
		s.properties = map[uint64][]map[string]apiextensionsv1.JSONSchemaProps{}
	}
	s.properties[key] = append(s.properties[key], properties)
	s.parts++
	return properties, key
}

type schemaHash struct{ hash.Hash64 }

func newHash() schemaHash { return schemaHash{fnv.New64a()} }

func (h schemaHash) text(values ...string) {
	for _, v := range values {
		h.number(uint64(len(v)))
		_, _ = h.Write([]byte(v)) // a hash returns no errors
	}
}

func (h schemaHash) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = h.Write(b[:])
}
