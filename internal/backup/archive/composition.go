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

// Composed says of which kinds objects of a kind are composed, as far as that is known.
type Composed map[schema.GroupKind]map[schema.GroupKind]bool

// Add notes that objects of a kind are composed of others.
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

// pipeline is what a composition, or a revision of one, says.
func pipeline(o *unstructured.Unstructured) v1.CompositionSpec {
	if o.GroupVersionKind().GroupKind() == revisionKind {
		var r v1.CompositionRevision
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r) // what can't be read says nothing
		return r.Spec.Composition()
	}
	var c v1.Composition
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c) // what can't be read says nothing
	return c.Spec
}

// ComposesFor is the kind that a composition, or a revision of one, composes.
func ComposesFor(o *unstructured.Unstructured) schema.GroupKind {
	return pipeline(o).CompositeTypeRef.GroupVersionKind().GroupKind()
}

// FunctionsOf are the functions that a composition, or a revision of one, names.
func FunctionsOf(o *unstructured.Unstructured) []string {
	var out []string
	for _, step := range pipeline(o).Pipeline {
		out = append(out, step.FunctionRef.Name)
	}
	return out
}

// Bases are the kinds that a composition, or a revision of one, composes, as far as its
// functions' inputs list them as those of the functions do that are part of the program.
func Bases(o *unstructured.Unstructured) []schema.GroupVersionKind {
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

// NamesByUID says whether a composition, or a revision of one, speaks of UIDs: what is
// named after one is named otherwise when it has been imported.
func NamesByUID(o *unstructured.Unstructured) bool {
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

// Settled says whether the newest revision of each composition is what the composition
// is: nothing has changed while they were read.
func Settled(compositions, revisions []*unstructured.Unstructured) bool {
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

// Number is which revision of its composition a revision is.
func Number(revision *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(revision.Object, "spec", "revision")
	return n
}
