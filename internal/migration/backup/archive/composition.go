package archive

import (
	"bytes"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

// Composed are the known kinds of composed resources, by the kind of the composite.
type Composed map[schema.GroupKind]map[schema.GroupKind]bool

// Add records that objects of a kind are composed of objects of others.
func (c Composed) Add(kind schema.GroupKind, of ...schema.GroupVersionKind) {
	if c[kind] == nil {
		c[kind] = map[schema.GroupKind]bool{}
	}
	for _, gvk := range of {
		c[kind][gvk.GroupKind()] = true
	}
}

func isComposition(o *unstructured.Unstructured) bool {
	gk := o.GroupVersionKind().GroupKind()
	return gk == compositionKind || gk == revisionKind
}

// pipeline returns the spec of a composition or a revision; a zero spec if it cannot be decoded.
func pipeline(o *unstructured.Unstructured) v1.CompositionSpec {
	if o.GroupVersionKind().GroupKind() == revisionKind {
		var r v1.CompositionRevision
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r)
		return r.Spec.CompositionSpec()
	}
	var c v1.Composition
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c)
	return c.Spec
}

// ComposesFor returns the composite kind of a composition or a revision.
func ComposesFor(o *unstructured.Unstructured) schema.GroupKind {
	return pipeline(o).CompositeTypeRef.GroupVersionKind().GroupKind()
}

// FunctionsOf returns the names of the functions in the pipeline of a composition or a revision.
func FunctionsOf(o *unstructured.Unstructured) []string {
	var out []string
	for _, step := range pipeline(o).Pipeline {
		out = append(out, step.FunctionRef.Name)
	}
	return out
}

// TemplateKinds returns the kinds of the resource templates in a composition or a revision. It
// knows the inputs of the built-in functions, and inputs of the same form.
func TemplateKinds(o *unstructured.Unstructured) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, step := range pipeline(o).Pipeline {
		var input struct {
			Resources []struct{ Base, Template Kind } `json:"resources"`
		}
		if step.Input == nil || json.Unmarshal(step.Input.Raw, &input) != nil {
			continue
		}
		for _, r := range input.Resources {
			for _, kind := range []Kind{r.Base, r.Template} {
				if kind.Kind != "" {
					out = append(out, kind.GVK())
				}
			}
		}
	}
	return out
}

// ReadsUID reports whether a composition or a revision mentions metadata.uid. Names that derive
// from a UID change with an import.
func ReadsUID(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(pipeline(o).Pipeline, func(step v1.PipelineStep) bool {
		return step.Input != nil && bytes.Contains(step.Input.Raw, []byte("metadata.uid"))
	})
}

func credentials(composition *unstructured.Unstructured) [][2]string {
	var out [][2]string
	for _, step := range pipeline(composition).Pipeline {
		for _, c := range step.Credentials {
			if c.Source == v1.CredentialsSecret && c.SecretRef != nil {
				out = append(out, [2]string{c.SecretRef.Namespace, c.SecretRef.Name})
			}
		}
	}
	return out
}

// RevisionsMatch reports whether the newest revision of each composition has the composition's
// spec, so that none changed while they were read.
func RevisionsMatch(compositions, revisions []*unstructured.Unstructured) bool {
	var history []*v1.CompositionRevision
	for _, o := range revisions {
		var r v1.CompositionRevision
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r) == nil {
			history = append(history, &r)
		}
	}
	return !slices.ContainsFunc(compositions, func(o *unstructured.Unstructured) bool {
		var c v1.Composition
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c)
		return err == nil && xrd.NextRevision(&c, history) != (xrd.RevisionChange{})
	})
}

// Number returns the number of a CompositionRevision.
func Number(revision *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(revision.Object, "spec", "revision")
	return n
}
