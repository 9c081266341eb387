// Package kind builds the CustomResourceDefinition of a graph's kind, and decides
// whether it may replace an existing one.
// See docs/design/0012-revisions-rollouts-and-versions.md.
//
// Pure: it decides from values alone.
package kind

import (
	"cmp"
	"maps"
	"strings"

	"github.com/gobuffalo/flect"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Name is the name of the CustomResourceDefinition of a kind with the default plural.
func Name(group, kind string) string { return plural(kind) + "." + group }

// NameOf is the name of the CustomResourceDefinition of a schema's kind.
func NameOf(s *v1alpha1.Schema) string {
	kind := s.InstanceKind()
	return pluralOf(s, kind.Kind) + "." + kind.Group
}

func pluralOf(s *v1alpha1.Schema, kind string) string { return cmp.Or(s.Plural, plural(kind)) }

func plural(kind string) string { return flect.Pluralize(strings.ToLower(kind)) }

// Options are the settings of the program for all kinds.
type Options struct {
	// Version is the version of the program, which a label records.
	Version string
	// AdditionalPrinterColumns adds printer columns to the dialect's, unless the author sets columns.
	AdditionalPrinterColumns bool
}

// For builds the CustomResourceDefinition of a graph's kind, with the labels of the owning
// definition. It does not set the conversion webhook, which versions may need.
func For(g *graph.Graph, s *v1alpha1.Schema, owner object.Definition, o Options) *apiextensionsv1.CustomResourceDefinition {
	scope := apiextensionsv1.NamespaceScoped
	if !g.Namespaced {
		scope = apiextensionsv1.ClusterScoped
	}
	out := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: pluralOf(s, g.Kind.Kind) + "." + g.Kind.Group, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: g.Kind.Group,
			Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind:       g.Kind.Kind,
				ListKind:   g.Kind.Kind + "List",
				Plural:     pluralOf(s, g.Kind.Kind),
				Singular:   strings.ToLower(g.Kind.Kind),
				ShortNames: s.ShortNames,
				Categories: s.Categories,
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name:                     g.Kind.Version,
				Served:                   true,
				Storage:                  true,
				Schema:                   &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: rootSchema(g.Spec.DeepCopy(), report.Schema(g.Status.DeepCopy()))},
				Subresources:             subresources(g, g.Kind.Version),
				AdditionalPrinterColumns: printerColumns(g, s, o),
			}},
		},
	}
	if s.Metadata != nil {
		maps.Copy(out.Labels, s.Metadata.Labels)
		maps.DeleteFunc(out.Labels, crd.IsReservedLabel)
		maps.Copy(out.Annotations, s.Metadata.Annotations)
		maps.DeleteFunc(out.Annotations, crd.IsReservedAnnotation) // of definitions that were accepted before these were refused
	}
	maps.Copy(out.Labels, crd.Labels(owner, o.Version))
	out.Annotations[crd.DefinitionAnnotation] = owner.Name
	addVersions(out, g)
	validateNames(out, g)
	return out
}

func subresources(g *graph.Graph, version string) *apiextensionsv1.CustomResourceSubresources {
	out := &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	if scale, ok := g.Scale[version]; ok {
		out.Scale = &scale
	}
	return out
}

func validateNames(c *apiextensionsv1.CustomResourceDefinition, g *graph.Graph) {
	if g.Name == nil {
		return
	}
	for i := range c.Spec.Versions {
		c.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": *g.Name},
		}
	}
}

func rootSchema(spec *apiextensionsv1.JSONSchemaProps, status apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if spec == nil {
		spec = &apiextensionsv1.JSONSchemaProps{Type: "object"}
	}
	return &apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"apiVersion": {Type: "string"},
			"kind":       {Type: "string"},
			"metadata":   {Type: "object"},
			"spec":       *spec,
			"status":     status,
		},
	}
}

// printerColumns are the author's columns, or else the dialect's: state, readiness and age. Their descriptions are the
// dialect's too: tests of other programs compare the CustomResourceDefinition.
func printerColumns(g *graph.Graph, s *v1alpha1.Schema, o Options) []apiextensionsv1.CustomResourceColumnDefinition {
	if len(s.AdditionalPrinterColumns) > 0 {
		return s.AdditionalPrinterColumns
	}
	out := []apiextensionsv1.CustomResourceColumnDefinition{
		{Name: "State", Type: "string", JSONPath: ".status.state", Description: "The state of a ResourceGraphDefinition instance"},
		{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`, Description: "Whether a ResourceGraphDefinition instance is ready"},
	}
	if o.AdditionalPrinterColumns {
		out = append(out, report.PrinterColumns(g.StatusFields)...)
	}
	return append(out, apiextensionsv1.CustomResourceColumnDefinition{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: "Age of the resource"})
}
