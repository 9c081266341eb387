package crd

import (
	"crypto/sha256"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Stored is a CustomResourceDefinition as caches store it: as WithoutSchemas returns it. The rest, most of it, is
// decoded when it is read. It is immutable, and safe for concurrent use.
type Stored struct {
	*apiextensionsv1.CustomResourceDefinition
	// Versions is a digest of the versions with their schemas.
	Versions VersionsDigest
	// whole is encoded: a decoded schema takes more than half a kilobyte for each field, and a cluster with the kinds
	// of a cloud contains a million fields. Definitions use few of them.
	whole []byte
}

// VersionsDigest is the same for equal versions of a kind with equal schemas.
type VersionsDigest [sha256.Size]byte

// Keep returns a CustomResourceDefinition to be stored. It removes from it what only people read: descriptions, unless
// IsCompared, and the last configuration of kubectl. The result shares the rest with it, which must not be changed.
func Keep(c *apiextensionsv1.CustomResourceDefinition) *Stored {
	delete(c.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if !IsCompared(c) {
		c.ManagedFields = nil
		for i := range c.Spec.Versions {
			if s := c.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
				stripDescriptions(s.OpenAPIV3Schema)
			}
		}
	}
	return &Stored{CustomResourceDefinition: WithoutSchemas(c), Versions: digestOfVersions(c), whole: encode(c)}
}

// Whole returns the CustomResourceDefinition with its schemas and the owners of its fields. It is the caller's.
func (s *Stored) Whole() *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Unmarshal(s.whole); err != nil {
		panic(fmt.Sprintf("decode a CustomResourceDefinition: %v", err)) // Keep has encoded it
	}
	return c
}

func digestOfVersions(c *apiextensionsv1.CustomResourceDefinition) VersionsDigest {
	return sha256.Sum256(encode(&apiextensionsv1.CustomResourceDefinition{
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: c.Spec.Versions},
	}))
}

func encode(c *apiextensionsv1.CustomResourceDefinition) []byte {
	raw, err := c.Marshal()
	if err != nil {
		panic(fmt.Sprintf("encode a CustomResourceDefinition: %v", err)) // the generated code returns no error
	}
	return raw
}

func stripDescriptions(s *apiextensionsv1.JSONSchemaProps) {
	s.Description = ""
	for name, p := range s.Properties {
		stripDescriptions(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		stripDescriptions(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		stripDescriptions(s.AdditionalProperties.Schema)
	}
}

// WithoutSchemas returns a copy without what makes a CustomResourceDefinition large: the schemas of its
// versions, their columns and selectable fields, and the owners of its fields. It shares the rest with the original.
func WithoutSchemas(c *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	out := *c
	out.ManagedFields = nil
	out.Spec.Versions = slices.Clone(c.Spec.Versions)
	for i := range out.Spec.Versions {
		v := &out.Spec.Versions[i]
		v.Schema, v.AdditionalPrinterColumns, v.SelectableFields = nil, nil, nil
	}
	return &out
}
