package workspace

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/diag"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

// Objects of unknown kinds are left out.
func (w *Workspace) checkObjects() {
	for _, d := range w.Documents() {
		gvk := d.Object.GroupVersionKind()
		if gvk.Kind == "" || gvk.Version == "" {
			w.addf(d, Error, "", "a document must have apiVersion and kind")
			continue
		}
		kind, known := w.Lookup(gvk)
		if d.Object.GetNamespace() != w.NamespaceOf(d, d.Object.GetNamespace()) {
			w.addf(d, Warning, "metadata.namespace", "is dropped by the API server: %s is cluster-scoped", gvk.Kind)
		}
		switch {
		case kind.NeverServed:
			w.add(d, Error, "", diag.List{diag.NeverServed("", gvk, kind)})
		case !known:
			w.addf(d, Warning, "kind", "%s of %s is unknown here, so the object is not checked; add its CustomResourceDefinition", gvk.Kind, gvk.GroupVersion())
		case kind.Schema != nil:
			w.checkObject(d, kind)
		}
	}
}

func (w *Workspace) checkObject(d *Document, kind object.KindInfo) {
	if name := d.Object.GetName(); name != "" {
		if problem := kind.NameRule.Check(name); problem != "" {
			w.addf(d, Error, "metadata.name", "is not a valid name: %s", problem)
		}
	} else if d.Object.GetGenerateName() == "" {
		w.addf(d, Error, "metadata.name", "is required")
	}
	w.checkLabels(d)
	w.checkUsage(d)
	problems := validate(kind.Schema, d.Object.Object)
	if len(problems) == 0 {
		problems = w.checkRules(d.Object) // rules assume a valid object
	}
	w.add(d, Error, "", slices.DeleteFunc(problems, func(p diag.Diagnostic) bool { return w.hasError(d, p.Path) }))
}

// It covers what no schema says about them.
func (w *Workspace) checkLabels(d *Document) {
	for _, field := range []string{"annotations", "labels"} {
		values, _, _ := unstructured.NestedMap(d.Object.Object, "metadata", field)
		for key, value := range values {
			at := object.Path("metadata").Field(field, key)
			if why := object.CheckMetadataKey(field, key); why != "" {
				w.addf(d, Error, at, "the key is invalid: %s", why)
			}
			text, _ := value.(string)
			if why := object.CheckLabelValue(text); field == "labels" && why != "" {
				w.addf(d, Error, at, "is invalid: %s", why)
			}
		}
	}
}

func (w *Workspace) hasError(d *Document, path object.Path) bool {
	at := d.Range(path)
	return slices.ContainsFunc(w.findings, func(f Finding) bool {
		return f.Severity == Error && f.File == d.File.Name && f.Path == path && f.Range == at
	})
}

// Fields that the schema does not know are problems, as with strict field validation of the API server.
func validate(s *spec.Schema, o map[string]any) diag.List {
	typed := specschema.WithObjectMeta(s)
	var out diag.List
	unknownFields(typed, o, "", &out)
	problems := validation.ValidateCustomResource(nil, withoutNulls(o), validation.NewSchemaValidatorFromOpenAPI(typed))
	for _, p := range problems {
		if d := diagnosticOf(p); d.Path != "" || d.Problem != "" {
			out.Add(d)
		}
	}
	return out.Sorted()
}

func diagnosticOf(e *field.Error) diag.Diagnostic {
	d := diag.Diagnostic{Path: pathOf(e.Field), Problem: e.Detail}
	switch e.Type {
	case field.ErrorTypeRequired:
		d.Problem = "is required"
	case field.ErrorTypeNotSupported:
		d.Problem = "is " + quoted(e.BadValue)
		d.Expected = strings.TrimPrefix(e.Detail, "supported values: ")
	default:
		// The detail says all.
	}
	d.Problem = strings.TrimPrefix(d.Problem, e.Field+" in body ")
	if d.Problem == "" {
		d.Problem = e.ErrorBody()
	}
	return d
}

func quoted(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}

var unquotedKey = regexp.MustCompile(`\[([^\]"]*[^\]"0-9][^\]"]*)\]`)

func pathOf(path string) object.Path {
	if path == "<nil>" || path == "." {
		return ""
	}
	return object.Path(unquotedKey.ReplaceAllString(path, `["$1"]`))
}

// It adds a problem for each field that a schema does not have.
func unknownFields(s *spec.Schema, v any, at object.Path, out *diag.List) {
	properties, items, values, isOpen := shapeOf(s)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			property, known := properties[name]
			switch {
			case known:
				unknownFields(&property, v[name], at.Field(name), out)
			case values != nil:
				unknownFields(values, v[name], at.Field(name), out)
			case !isOpen && len(properties) > 0:
				out.Add(diag.Diagnostic{Path: at.Field(name), Problem: "there is no such field", Nearest: diag.Nearest(name, slices.Collect(maps.Keys(properties)))})
			}
		}
	case []any:
		for i, item := range v {
			if items != nil {
				unknownFields(items, item, at.Index(i), out)
			}
		}
	}
}

// It merges what a schema and its allOf say of an object's fields, a list's items and a map's values. An open object
// may have further fields.
func shapeOf(s *spec.Schema) (properties map[string]spec.Schema, items, values *spec.Schema, isOpen bool) {
	properties = maps.Clone(s.Properties)
	if s.Items != nil {
		items = s.Items.Schema
	}
	if s.AdditionalProperties != nil {
		values, isOpen = s.AdditionalProperties.Schema, s.AdditionalProperties.Allows
	}
	preserves, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields")
	embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource")
	isOpen = isOpen || preserves || embedded
	for i := range s.AllOf {
		p, it, vs, open := shapeOf(&s.AllOf[i])
		if properties == nil {
			properties = map[string]spec.Schema{}
		}
		maps.Copy(properties, p)
		isOpen = isOpen || open
		if it != nil {
			items = it
		}
		if vs != nil {
			values = vs
		}
	}
	return properties, items, values, isOpen
}

// The API server treats them as absent.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if value != nil {
				out[key] = withoutNulls(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = withoutNulls(item)
		}
		return out
	}
	return v
}
