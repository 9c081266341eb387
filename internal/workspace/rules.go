package workspace

import (
	"context"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
)

// WithDefaults returns a copy of an object with the defaults of its kind's schema, if the files have its
// CustomResourceDefinition.
func (w *Workspace) WithDefaults(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	if s := w.structuralOf(o); s != nil {
		defaulting.PruneNonNullableNullsWithoutDefaults(out.Object, s)
		defaulting.Default(out.Object, s)
	}
	return out
}

// checkRules lists the rules of a CustomResourceDefinition that an object breaks: CEL rules, and lists that are sets
// or maps.
func (w *Workspace) checkRules(o *unstructured.Unstructured) diag.List {
	s := w.structuralOf(o)
	if s == nil {
		return nil
	}
	var out diag.List
	complete := w.WithDefaults(o).Object
	problems := listtype.ValidateListSetsAndMaps(nil, s, complete)
	if validator := cel.NewValidator(s, true, celconfig.PerCallLimit); validator != nil {
		broken, _ := validator.Validate(context.Background(), nil, s, complete, nil, celconfig.RuntimeCELCostBudget)
		problems = append(problems, broken...)
	}
	for _, p := range problems {
		out.Add(diagnosticOf(p))
	}
	return out.Sorted()
}

// structuralOf returns the schema of an object's kind and version, if the files have its
// CustomResourceDefinition.
func (w *Workspace) structuralOf(o *unstructured.Unstructured) *structural.Structural {
	gvk := o.GroupVersionKind()
	c, ok := w.crds[gvk.GroupKind()]
	if !ok {
		return nil
	}
	if s, ok := w.structurals[gvk]; ok {
		return s
	}
	s, err := crd.Structural(c, gvk.Version)
	if err != nil {
		s = nil // the CustomResourceDefinition has a finding of its own
	}
	w.structurals[gvk] = s
	return s
}

// checkCRD lists what the API server refuses in a CustomResourceDefinition.
func checkCRD(o *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, diag.List) {
	c := &apiextensionsv1.CustomResourceDefinition{}
	var out diag.List
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, c); err != nil {
		out.Addf("spec", "is not a CustomResourceDefinition: %v", err)
		return nil, out
	}
	for _, p := range admission.CheckDefinition(c) {
		out.Add(withoutDrawing(diagnosticOf(p)))
	}
	return c, out
}

// withoutDrawing removes the lines in which CEL repeats an expression and points to a place in it.
func withoutDrawing(d diag.Diagnostic) diag.Diagnostic {
	lines := slices.DeleteFunc(strings.Split(d.Problem, "\n"), func(line string) bool { return strings.HasPrefix(line, " | ") })
	d.Problem = strings.Join(lines, " ")
	return d
}
