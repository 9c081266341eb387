package admission

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// FieldTypes returns the types of the fields of a version of a kind. A server-side apply is merged or refused by them.
func FieldTypes(c *apiextensionsv1.CustomResourceDefinition, version string) (managedfields.TypeConverter, error) {
	s := crd.SchemaOf(c, version)
	if s == nil {
		return nil, fmt.Errorf("%s has no schema of version %s", crd.GroupKind(c), version)
	}
	gvk := crd.GroupKind(c).WithVersion(version)
	root := withMetadata(*s)
	root.Extensions = maps.Clone(root.Extensions)
	root.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
	models := maps.Clone(metadataTypes())
	models["object"] = &root
	return managedfields.NewTypeConverter(models, c.Spec.PreserveUnknownFields)
}

const metadataPrefix = "io.k8s.apimachinery.pkg.apis.meta.v1."

var metadataTypes = sync.OnceValue(func() map[string]*spec.Schema {
	out := builtin.Types(schema.GroupVersion{Version: "v1"})
	maps.DeleteFunc(out, func(name string, _ *spec.Schema) bool { return !strings.HasPrefix(name, metadataPrefix) })
	return out
})

// withMetadata adds the fields that each object has, whatever its schema says, to the schemas of an object and of the
// objects embedded in it.
func withMetadata(s spec.Schema) spec.Schema {
	s = withEmbedded(s)
	properties := map[string]spec.Schema{}
	maps.Copy(properties, s.Properties)
	for _, name := range []string{"apiVersion", "kind"} {
		properties[name] = *spec.StringProperty()
	}
	properties["metadata"] = *spec.RefSchema("#/components/schemas/" + metadataPrefix + "ObjectMeta")
	s.Properties = properties
	return s
}

func withEmbedded(s spec.Schema) spec.Schema {
	each := func(below spec.Schema) spec.Schema {
		if is, _ := below.Extensions.GetBool("x-kubernetes-embedded-resource"); is {
			return withMetadata(below)
		}
		return withEmbedded(below)
	}
	if s.Properties != nil {
		properties := make(map[string]spec.Schema, len(s.Properties))
		for name, property := range s.Properties {
			properties[name] = each(property)
		}
		s.Properties = properties
	}
	if s.Items != nil && s.Items.Schema != nil {
		items := each(*s.Items.Schema)
		s.Items = &spec.SchemaOrArray{Schema: &items}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		values := each(*s.AdditionalProperties.Schema)
		s.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &values}
	}
	return s
}
