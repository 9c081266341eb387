package crd

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// PackedSchema is an encoded schema, for those that are kept and seldom read: each field of a decoded one takes more
// than half a kilobyte. The zero value is that of a nil schema.
type PackedSchema string

// PackSchema encodes a schema, as Kubernetes does in protobuf.
func PackSchema(s *apiextensionsv1.JSONSchemaProps) PackedSchema {
	if s == nil {
		return ""
	}
	raw, err := s.Marshal()
	if err != nil {
		panic(fmt.Sprintf("encode a schema: %v", err)) // the generated code returns no error
	}
	return PackedSchema(raw)
}

// Unpack returns the schema, which is the caller's. What is empty in it is nil.
func (p PackedSchema) Unpack() *apiextensionsv1.JSONSchemaProps {
	if p == "" {
		return nil
	}
	s := &apiextensionsv1.JSONSchemaProps{}
	if err := s.Unmarshal([]byte(p)); err != nil {
		panic(fmt.Sprintf("decode a schema: %v", err)) // PackSchema has encoded it
	}
	return s
}
