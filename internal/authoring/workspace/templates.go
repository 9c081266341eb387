package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/diag"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/functions"
)

const isRequired = "is required"

// What an expression sets is unknown.
func requiredFields(kind object.KindInfo, template map[string]any) diag.List {
	return slices.DeleteFunc(validate(kind.Schema, template), func(p diag.Diagnostic) bool { return p.Problem != isRequired })
}

// stepCheck checks the composed resources of a step of a pipeline.
type stepCheck struct {
	w *Workspace
	d *Document
	// at is the step's input.
	at        object.Path
	composite schema.GroupVersionKind
	kind      object.KindInfo
	// isComplete says that no later step adds fields.
	isComplete bool
}

// template checks a composed resource: the fields of its base that no patch sets, its namespace, and the fields that patches read and write.
func (c stepCheck) template(t functions.Template) {
	gvk := (&unstructured.Unstructured{Object: t.Object}).GroupVersionKind()
	kind, known := c.w.Lookup(gvk)
	switch {
	case gvk.Kind == "" || gvk.Version == "" || strings.Contains(gvk.String(), "${") || t.Sets("apiVersion") || t.Sets("kind"):
		kind, known = object.KindInfo{}, false
	case t.IsGraph: // its kind and its fields are checked with its expressions
		if known && kind.Schema != nil && c.isComplete && !adopts(t.Object) {
			c.add(Error, t.Path, requiredFields(kind, t.Object))
		} else if !known && !kind.NeverServed {
			c.w.warnOfUnknownKind(c.d, c.at.Join(t.Path), gvk)
		}
	case kind.NeverServed:
		c.add(Error, "", diag.List{diag.NeverServed(t.Path, gvk, kind)})
	case !known:
		c.w.warnOfUnknownKind(c.d, c.at.Join(t.Path), gvk)
	case kind.Schema != nil:
		c.base(t, kind)
	}
	if known && t.Object != nil {
		c.namespace(t, gvk.Kind, kind.Namespaced)
	}
	for _, f := range t.Fields {
		c.field(f, gvk, kind)
	}
}

// Fields that a patch sets are left out.
func (c stepCheck) base(t functions.Template, kind object.KindInfo) {
	c.add(Error, t.Path, slices.DeleteFunc(validate(kind.Schema, t.Object), func(p diag.Diagnostic) bool {
		return t.Sets(string(p.Path)) || p.Problem == isRequired && (!c.isComplete || adopts(t.Object))
	}))
}

// The existing object has the fields that it lacks.
func adopts(o map[string]any) bool {
	adopt, _, _ := unstructured.NestedString(o, "metadata", "annotations", v1alpha1.AdoptAnnotation)
	return adopt == string(v1alpha1.AdoptIfUnowned)
}

// namespace checks the namespace of a composed resource. A namespaced composite composes objects in its own namespace only, and one that is
// cluster-scoped needs a namespace for each namespaced object.
func (c stepCheck) namespace(t functions.Template, kind string, isNamespaced bool) {
	if _, known := c.w.Lookup(c.composite); !known {
		return
	}
	metadata, _ := t.Object["metadata"].(map[string]any)
	isUnknown := t.Object["metadata"] != nil && metadata == nil || t.Sets("metadata.namespace")
	switch namespace := functions.NamespaceOf(t); {
	case c.kind.Namespaced && !isNamespaced:
		c.add(Error, t.Path, diag.List{{Path: "kind",
			Problem: fmt.Sprintf("%s is cluster-scoped; a namespaced composite composes objects in its own namespace only", kind)}})
	case c.kind.Namespaced && namespace != "":
		c.add(Warning, t.Path, diag.List{{Path: "metadata.namespace", Problem: fmt.Sprintf(
			"%s %s is composed in the namespace of its %s, not in %s; a namespaced composite composes objects in its own namespace only", kind, t.Name,
			c.composite.Kind, namespace)}})
	case !c.kind.Namespaced && isNamespaced && metadata["namespace"] == nil && !isUnknown && c.isComplete:
		c.add(Error, t.Path, diag.List{{Path: "metadata.namespace", Problem: fmt.Sprintf("is required: %s is namespaced and %s is cluster-scoped", kind,
			c.composite.Kind)}})
	}
}

func (c stepCheck) field(f functions.Field, composed schema.GroupVersionKind, kind object.KindInfo) {
	of := composed.Kind
	if f.OfComposite {
		of, kind = c.composite.Kind, c.kind
	}
	path, err := fieldpath.Parse(f.Path)
	if kind.Schema == nil || err != nil || c.w.hasError(c.d, c.at.Join(f.Place)) {
		return
	}
	if because, nearest, missing := missingField(specschema.WithObjectMeta(kind.Schema), path); missing {
		c.add(Error, "", diag.List{{Path: f.Place, Problem: of + " has no field " + f.Path + because, Nearest: nearest}})
	}
}

func (c stepCheck) add(severity Severity, below object.Path, problems diag.List) {
	c.w.add(c.d, severity, c.at.Join(below), problems)
}

// because is why objects of a schema cannot have the field; nearest is the name that may have been meant. Below what
// may have any fields, all are possible.
func missingField(s *spec.Schema, path fieldpath.Path) (because, nearest string, missing bool) {
	for i, segment := range path {
		properties, items, values, isOpen := shapeOf(s)
		at := path[:i].String()
		property, known := properties[segment.Field]
		switch isItem := segment.IsIndex || segment.IsWildcard(); {
		case isScalar(s):
			return fmt.Sprintf(": %s is of type %s", at, s.Type[0]), "", true
		case isItem && items != nil:
			s = items
		case segment.IsIndex && (len(properties) > 0 || values != nil):
			return fmt.Sprintf(": %s is not a list", at), "", true
		case segment.IsWildcard() && values != nil, !isItem && !known && values != nil:
			s = values
		case isItem:
			return "", "", false
		case items != nil:
			return fmt.Sprintf(": %s is a list", at), "", true
		case known:
			s = &property
		case isOpen || len(properties) == 0:
			return "", "", false
		default:
			return "", diag.Nearest(segment.Field, slices.Collect(maps.Keys(properties))), true
		}
	}
	return "", "", false
}

func isScalar(s *spec.Schema) bool {
	isIntOrString, _ := s.Extensions.GetBool("x-kubernetes-int-or-string")
	preserves, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields")
	return len(s.Type) == 1 && !isIntOrString && !preserves && !strings.Contains("object array", s.Type[0])
}
