package workspace

import (
	"context"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
)

// WithDefaults returns a copy of an object with the defaults of its kind's schema, if the files have its
// CustomResourceDefinition.
func (w *Workspace) WithDefaults(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	if r := w.rulesOf(o.GroupVersionKind()); r != nil {
		r.setDefaults(out.Object)
	}
	return out
}

// checkRules lists the rules of a CustomResourceDefinition that an object breaks: CEL rules, and lists that are sets
// or maps. It may be one of the files, or one of the program's own.
func (w *Workspace) checkRules(o *unstructured.Unstructured) diag.List {
	gvk := o.GroupVersionKind()
	r := w.rulesOf(gvk)
	if own, ok := ownRules()[gvk]; ok && r == nil {
		r = own()
	}
	if r == nil {
		return nil
	}
	return r.check(o)
}

var ownRules = sync.OnceValue(func() map[schema.GroupVersionKind]func() *rules {
	out := map[schema.GroupVersionKind]func() *rules{}
	for _, c := range ownDefinitions() {
		for _, v := range c.Spec.Versions {
			out[crd.GroupKind(c).WithVersion(v.Name)] = sync.OnceValue(func() *rules { return newRules(c, v.Name) })
		}
	}
	return out
})

// rules are what the schema of a kind says beyond OpenAPI. They are safe for concurrent use.
type rules struct {
	schema *structural.Structural
	cel    *cel.Validator
}

// newRules returns nil if the CustomResourceDefinition is invalid, for which it has a finding of its own.
func newRules(c *apiextensionsv1.CustomResourceDefinition, version string) *rules {
	s, err := crd.Structural(c, version)
	if err != nil || s == nil {
		return nil
	}
	return &rules{s, cel.NewValidator(s, true, celconfig.PerCallLimit)}
}

func (r *rules) setDefaults(content map[string]any) {
	defaulting.PruneNonNullableNullsWithoutDefaults(content, r.schema)
	defaulting.Default(content, r.schema)
}

func (r *rules) check(o *unstructured.Unstructured) diag.List {
	var out diag.List
	complete := o.DeepCopy().Object
	r.setDefaults(complete)
	problems := listtype.ValidateListSetsAndMaps(nil, r.schema, complete)
	if r.cel != nil {
		broken, _ := r.cel.Validate(context.Background(), nil, r.schema, complete, nil, celconfig.RuntimeCELCostBudget)
		problems = append(problems, broken...)
	}
	for _, p := range problems {
		out.Add(diagnosticOf(p))
	}
	return out.Sorted()
}

// It is nil unless the files contain the CustomResourceDefinition.
func (w *Workspace) rulesOf(gvk schema.GroupVersionKind) *rules {
	c, ok := w.crds[gvk.GroupKind()]
	if !ok {
		return nil
	}
	if _, ok := w.rules[gvk]; !ok {
		w.rules[gvk] = newRules(c, gvk.Version)
	}
	return w.rules[gvk]
}

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

// CEL repeats an expression and points to a place in it; these lines are removed.
func withoutDrawing(d diag.Diagnostic) diag.Diagnostic {
	lines := slices.DeleteFunc(strings.Split(d.Problem, "\n"), func(line string) bool { return strings.HasPrefix(line, " | ") })
	d.Problem = strings.Join(lines, " ")
	return d
}
