package workspace

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
	"github.com/espalier-dev/espalier/internal/object"
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

// generatedField matches a field of the schema, or another one, of a version of a generated CustomResourceDefinition.
var (
	generatedField = regexp.MustCompile(`^spec\.versions\[(\d+)\]\.(schema\.openAPIV3Schema|additionalPrinterColumns)(.*)$`)
	property       = regexp.MustCompile(`^\.properties\[([^\]]*)\]`)
)

// checkGenerated reports what the API server refuses in the CustomResourceDefinition of a definition: rules of markers that are no CEL, columns, names.
func (w *Workspace) checkGenerated(d *Document, s *v1alpha1.Schema, c *apiextensionsv1.CustomResourceDefinition) {
	for _, p := range admission.CheckDefinition(c) {
		problem := withoutDrawing(diagnosticOf(p))
		problem.Path = originOf(p.Field, s, c)
		if p.Type == field.ErrorTypeRequired && p.Detail != "" {
			problem.Problem = p.Detail // what is required is no field of the definition
		}
		w.add(d, Error, "", diag.List{problem})
	}
}

// originOf returns the field of a definition that a field of its CustomResourceDefinition is generated from.
func originOf(generated string, s *v1alpha1.Schema, c *apiextensionsv1.CustomResourceDefinition) object.Path {
	at := object.Path("spec.schema")
	found := generatedField.FindStringSubmatch(generated)
	switch {
	case found == nil && strings.HasPrefix(generated, "spec.names.plural") && s.Plural != "":
		return at.Field("plural")
	case found == nil && strings.HasPrefix(generated, "spec.names."):
		return at.Field("kind")
	case found == nil:
		return at.Field("group")
	}
	if i, err := strconv.Atoi(found[1]); err == nil && i < len(c.Spec.Versions) {
		if j := slices.IndexFunc(s.Versions, func(v v1alpha1.Version) bool { return v.Name == c.Spec.Versions[i].Name }); j >= 0 {
			at = at.Field("versions").Index(j)
		}
	}
	rest := found[3]
	if found[2] == "additionalPrinterColumns" {
		return join(at.Field("additionalPrinterColumns"), pathOf(rest))
	}
	for {
		name := property.FindStringSubmatch(rest)
		if name == nil {
			return at
		}
		at, rest = at.Field(name[1]), rest[len(name[0]):]
	}
}

// withoutDrawing removes the lines in which CEL repeats an expression and points to a place in it.
func withoutDrawing(d diag.Diagnostic) diag.Diagnostic {
	lines := slices.DeleteFunc(strings.Split(d.Problem, "\n"), func(line string) bool { return strings.HasPrefix(line, " | ") })
	d.Problem = strings.Join(lines, " ")
	return d
}
