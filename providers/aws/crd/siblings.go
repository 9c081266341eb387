package crd

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/reference"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// siblings are the fields beside properties from which these can take their values.
type siblings struct {
	references map[string]reference.Reference
	// secrets are the properties that can come from a Secret, and hidden the ones that can only come from one.
	secrets map[string]resourcetype.Path
	hidden  map[string]bool
	// ref, selector and secret are the schemas of such fields.
	ref, selector, secret apiextensionsv1.JSONSchemaProps
	// clusterScoped reports whether references are to cluster-scoped kinds.
	clusterScoped bool
}

// Suffixes of the names of siblings.
const (
	RefSuffix       = "Ref"
	RefsSuffix      = "Refs"
	SelectorSuffix  = "Selector"
	SecretRefSuffix = "SecretRef"
)

func newSiblings(t *resourcetype.Type, base template) siblings {
	s := siblings{
		references: map[string]reference.Reference{}, secrets: map[string]resourcetype.Path{}, hidden: map[string]bool{},
		ref: base.ref, selector: base.selector, secret: base.secret, clusterScoped: base.clusterScoped,
	}
	for _, r := range reference.Of(t) {
		s.references[r.Path.String()] = r
	}
	for _, path := range resourcetype.SecretPaths(t) {
		s.secrets[path.String()] = path
		if resourcetype.IsSecret(path) {
			s.hidden[path.String()] = true
		}
	}
	for _, path := range resourcetype.ReadableSecretPaths(t) {
		s.secrets[path.String()] = path
	}
	return s
}

// It is the kind as people write it: VPC (ec2.aws.espalier.dev).
func (s siblings) kindOf(typeName string) string {
	kind, err := naming.Of(typeName, s.clusterScoped)
	if err != nil {
		return typeName
	}
	return kind.Kind + " (" + kind.Group + ")"
}

func (s siblings) replaced(path resourcetype.Path) bool {
	return s.hidden[path.String()]
}

func (s siblings) of(path resourcetype.Path) []string {
	name := path[len(path)-1]
	var out []string
	if r, has := s.references[path.String()]; has && r.List {
		out = append(out, name+RefsSuffix, name+SelectorSuffix)
	} else if has {
		out = append(out, name+RefSuffix, name+SelectorSuffix)
	}
	if _, has := s.secrets[path.String()]; has {
		out = append(out, name+SecretRefSuffix)
	}
	return out
}

func (c *converter) addSiblings(out *apiextensionsv1.JSONSchemaProps, path resourcetype.Path) {
	if c.part == atProvider {
		return
	}
	for _, each := range sortedKeys(c.siblings.references) {
		r := c.siblings.references[each]
		if name, isHere := childName(r.Path, path); isHere && out.Properties[name].Type != "" {
			value, kind := "the identifier", c.siblings.kindOf(r.To)
			if len(r.Attribute) > 0 {
				value = "status.atProvider." + r.Attribute.String()
			}
			if r.List {
				c.addSibling(out, path, name+RefsSuffix, describe(apiextensionsv1.JSONSchemaProps{
					Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &c.siblings.ref},
				}, fmt.Sprintf("Sets %s to %s of each object with these names, of kind %s.", name, value, kind)))
				c.addSibling(out, path, name+SelectorSuffix, describe(c.siblings.selector,
					fmt.Sprintf("Sets %s to %s of all objects with these labels, of kind %s.", name, value, kind)))
				continue
			}
			c.addSibling(out, path, name+RefSuffix, describe(c.siblings.ref,
				fmt.Sprintf("Sets %s to %s of the object with this name, of kind %s.", name, value, kind)))
			c.addSibling(out, path, name+SelectorSuffix, describe(c.siblings.selector,
				fmt.Sprintf("Sets %s to %s of an object with these labels, of kind %s.", name, value, kind)))
		}
	}
	for _, each := range sortedKeys(c.siblings.secrets) {
		if name, isHere := childName(c.siblings.secrets[each], path); isHere && c.hasSecret(*out, path, name) {
			if out.Properties == nil {
				out.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
			}
			c.addSibling(out, path, name+SecretRefSuffix, describe(c.siblings.secret, "Sets "+name+" to the value of this key of a Secret."))
		}
	}
}

// The object may lack the property: schemas are cut at a certain depth.
func (c *converter) hasSecret(object apiextensionsv1.JSONSchemaProps, path resourcetype.Path, name string) bool {
	return object.Properties[name].Type != "" || c.siblings.replaced(append(slices.Clip(path), name))
}

func (c *converter) addSibling(out *apiextensionsv1.JSONSchemaProps, path resourcetype.Path, name string, s apiextensionsv1.JSONSchemaProps) {
	if _, isTaken := out.Properties[name]; isTaken {
		c.lose(append(slices.Clip(path), name), Sibling)
		return
	}
	if c.part == initProvider {
		s.Description = ""
	}
	out.Properties[name] = s
}

func describe(s apiextensionsv1.JSONSchemaProps, description string) apiextensionsv1.JSONSchemaProps {
	s.Description = description
	return s
}

func childName(path, parent resourcetype.Path) (string, bool) {
	if len(path) != len(parent)+1 || !slices.Equal(path[:len(parent)], parent) {
		return "", false
	}
	return path[len(parent)], true
}
