// Package crd makes the CustomResourceDefinitions of resource types from their schemas. What the schema of a
// CustomResourceDefinition cannot say is not checked by the API server, but by AWS; For lists it.
//
// Pure: it decides from values alone.
package crd

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// TypeAnnotation is the annotation of a CustomResourceDefinition with the name of its resource type.
const TypeAnnotation = "aws.espalier.dev/resource-type"

// For returns the CustomResourceDefinition of a resource type, and what it does not say of the type's schema.
func For(t *resourcetype.Type, clusterScoped bool) (*apiextensionsv1.CustomResourceDefinition, []Loss, error) {
	kind, err := naming.Of(t.Name, clusterScoped)
	if err != nil {
		return nil, nil, err
	}
	base, err := readTemplate(clusterScoped)
	if err != nil {
		return nil, nil, err
	}
	out := base.crd
	out.Name = kind.CRDName()
	out.Annotations = map[string]string{TypeAnnotation: t.Name}
	out.Spec.Group = kind.Group
	out.Spec.Names.Kind, out.Spec.Names.ListKind = kind.Kind, kind.ListKind
	out.Spec.Names.Plural, out.Spec.Names.Singular = kind.Plural, kind.Singular
	if clusterScoped {
		out.Spec.Scope = apiextensionsv1.ClusterScoped
	}
	losses := describeType(out.Spec.Versions[0].Schema.OpenAPIV3Schema, t, base, kind.Kind)
	return out, losses, nil
}

func describeType(object *apiextensionsv1.JSONSchemaProps, t *resourcetype.Type, base template, kind string) []Loss {
	siblings := newSiblings(t, base)
	desired := converter{t: t, part: forProvider, siblings: siblings}
	initial := converter{t: t, part: initProvider, siblings: siblings}
	observed := converter{t: t, part: atProvider, siblings: siblings}

	spec, status := object.Properties["spec"], object.Properties["status"]
	spec.Properties["forProvider"] = described(desired.convert(), "ForProvider are the desired properties of the resource.")
	spec.Properties["initProvider"] = described(initial.convert(), spec.Properties["initProvider"].Description)
	at := described(observed.convert(), status.Properties["atProvider"].Description)
	at.XPreserveUnknownFields = new(true)
	status.Properties["atProvider"] = at
	policies := spec.Properties["managementPolicies"]
	policies.MaxItems = new(int64(6))
	spec.Properties["managementPolicies"] = policies

	spec.Description = "Desired state of the resource."
	status.Description = "Observed state of the resource."
	desired.requireProperties(&spec)
	object.Properties["spec"], object.Properties["status"] = spec, status
	desired.excludeProperties(object)
	desired.forbidChanges(object, kind)

	losses := sorted(desired.losses)
	properties := spec.Properties["forProvider"]
	properties.Description = describeLosses(properties.Description, losses)
	spec.Properties["forProvider"] = properties
	object.Description = strings.TrimSpace(t.Name + ": " + resourcetype.Shorten(t.Description, 600))
	if len(losses) > 0 {
		object.Description += " AWS checks more than this kind says: see the description of spec.forProvider."
	}
	return losses
}

// The type of the object is set even if it has no properties.
func described(s apiextensionsv1.JSONSchemaProps, description string) apiextensionsv1.JSONSchemaProps {
	s.Type, s.Description, s.AdditionalProperties = "object", description, nil
	if len(s.Properties) > 0 {
		s.XPreserveUnknownFields = nil
	}
	return s
}

// Only AWS checks these.
func describeLosses(description string, losses []Loss) string {
	if len(losses) == 0 {
		return description
	}
	return description + " Not checked here, only by AWS: " + List(losses, maxListed) + "."
}

type template struct {
	crd                   *apiextensionsv1.CustomResourceDefinition
	ref, selector, secret apiextensionsv1.JSONSchemaProps
	clusterScoped         bool
}

//go:embed base/aws.espalier.dev_resources.yaml
var templateFile []byte

var parseTemplate = sync.OnceValues(func() (*apiextensionsv1.CustomResourceDefinition, error) {
	var out apiextensionsv1.CustomResourceDefinition
	err := yaml.UnmarshalStrict(templateFile, &out)
	return &out, err
})

func readTemplate(clusterScoped bool) (template, error) {
	parsed, err := parseTemplate()
	if err != nil {
		return template{}, fmt.Errorf("read the template of CustomResourceDefinitions: %w", err)
	}
	out := template{crd: parsed.DeepCopy(), clusterScoped: clusterScoped}
	object := out.crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	siblings := object.Properties["spec"].Properties["forProvider"].Properties
	out.ref, out.selector, out.secret = undescribed(siblings["ref"]), undescribed(siblings["selector"]), undescribed(siblings["secretRef"])
	if clusterScoped {
		out.secret = undescribed(siblings["clusterSecretRef"])
	}
	for _, name := range []string{"apiVersion", "kind"} {
		object.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	return out, nil
}

// Descriptions are long for what is repeated often.
func undescribed(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	s = *s.DeepCopy()
	s.Description = ""
	for name, property := range s.Properties {
		s.Properties[name] = undescribed(property)
	}
	return s
}
