package reference

import (
	"reflect"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/crd"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	sandbox "github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// kinds are those that the examples of a page can use: what every API server has, the managed
// resources of the sandbox, and what the definitions before serve.
type kinds struct{ known graph.Kinds }

func newKinds(t *testing.T) *kinds {
	t.Helper()
	k := &kinds{known: graph.Kinds{}}
	for _, c := range definitionsIn(t, sandbox.CRDs) {
		for _, v := range c.Spec.Versions {
			k.known[kindOf(c, v.Name)] = object.KindInfo{
				Schema:     crd.OpenAPI(v.Schema.OpenAPIV3Schema),
				Namespaced: c.Spec.Scope == apiextensionsv1.NamespaceScoped, NameRule: object.Subdomain,
			}
		}
	}
	return k
}

// unnamespaced are the kinds of every API server that live in no namespace, as far as examples
// use them.
var unnamespaced = map[string]bool{"Namespace": true, "ClusterRole": true, "ClusterRoleBinding": true, "PersistentVolume": true, "StorageClass": true}

// of are the kinds that a definition uses.
func (k *kinds) of(t *testing.T, used []schema.GroupVersionKind) graph.Kinds {
	t.Helper()
	out := graph.Kinds{}
	for _, gvk := range used {
		if known, ok := k.known[gvk]; ok {
			out[gvk] = known
			continue
		}
		made, err := scheme.Scheme.New(gvk)
		if err != nil {
			continue // it is not installed
		}
		s := typed(reflect.TypeOf(made).Elem(), nil)
		out[gvk] = object.KindInfo{Schema: &s, Namespaced: !unnamespaced[gvk.Kind], NameRule: object.BuiltInNameRule(gvk.GroupKind())}
	}
	return out
}

func scalar(kind, format string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{kind}, Format: format}}
}

// special are types that are written otherwise than they are made.
var special = map[reflect.Type]func() spec.Schema{
	reflect.TypeFor[metav1.Time]():          func() spec.Schema { return scalar("string", "date-time") },
	reflect.TypeFor[metav1.MicroTime]():     func() spec.Schema { return scalar("string", "date-time") },
	reflect.TypeFor[metav1.Duration]():      func() spec.Schema { return scalar("string", "") },
	reflect.TypeFor[metav1.FieldsV1]():      func() spec.Schema { return scalar("object", "") },
	reflect.TypeFor[runtime.RawExtension](): func() spec.Schema { return open() },
	reflect.TypeFor[[]byte]():               func() spec.Schema { return scalar("string", "byte") },
	reflect.TypeFor[intstr.IntOrString](): func() spec.Schema {
		s := spec.Schema{}
		s.AddExtension("x-kubernetes-int-or-string", true)
		return s
	},
	reflect.TypeFor[resource.Quantity](): func() spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{OneOf: []spec.Schema{scalar("string", ""), scalar("number", "")}}}
	},
}

func open() spec.Schema {
	s := scalar("object", "")
	s.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	return s
}

// typed is the schema of a Go type of Kubernetes, as its API server publishes it.
func typed(t reflect.Type, within []reflect.Type) spec.Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if made, ok := special[t]; ok {
		return made()
	}
	switch t.Kind() {
	case reflect.String:
		return scalar("string", "")
	case reflect.Bool:
		return scalar("boolean", "")
	case reflect.Int, reflect.Int32, reflect.Int64:
		return scalar("integer", "")
	case reflect.Float32, reflect.Float64:
		return scalar("number", "")
	case reflect.Slice:
		items := typed(t.Elem(), within)
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"array"}, Items: &spec.SchemaOrArray{Schema: &items}}}
	case reflect.Map:
		values := typed(t.Elem(), within)
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, AdditionalProperties: &spec.SchemaOrBool{Allows: true, Schema: &values}}}
	case reflect.Struct:
		return fieldsOf(t, within)
	default:
		return open()
	}
}

func fieldsOf(t reflect.Type, within []reflect.Type) spec.Schema {
	for _, outer := range within {
		if outer == t {
			return open()
		}
	}
	out := scalar("object", "")
	out.Properties = map[string]spec.Schema{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			for key, s := range typed(f.Type, within).Properties {
				out.Properties[key] = s
			}
			continue
		}
		s := typed(f.Type, append(within, t))
		if key := f.Tag.Get("patchMergeKey"); key != "" {
			s.AddExtension("x-kubernetes-list-type", "map")
			s.AddExtension("x-kubernetes-list-map-keys", []any{key})
		}
		out.Properties[name] = s
	}
	return out
}

// defaulted gives an instance the defaults of its kind, as the API server does.
func defaulted(t *testing.T, of *apiextensionsv1.JSONSchemaProps, o *unstructured.Unstructured) {
	t.Helper()
	if of == nil || len(of.Properties) == 0 {
		return
	}
	fields, ok := o.Object["spec"].(map[string]any)
	if !ok {
		return // the API server gives no defaults to what is not there
	}
	defaulting.Default(fields, structural(t, of))
}

// structural is a schema as the API server works with it.
func structural(t *testing.T, of *apiextensionsv1.JSONSchemaProps) *structuralschema.Structural {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(of, &internal, nil); err != nil {
		t.Fatal(err)
	}
	out, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
