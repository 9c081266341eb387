package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/apiextensions"
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/functions/autoready"
	"github.com/espalier-dev/espalier/internal/composition/functions/environment"
	"github.com/espalier-dev/espalier/internal/composition/functions/extraresources"
	"github.com/espalier-dev/espalier/internal/composition/functions/sequencer"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/functions"
)

// Kinds of the composition dialect.
var (
	// CompositeDefinitionKind and CompositionKind are the kinds of definitions and compositions of composites.
	CompositeDefinitionKind = schema.GroupKind{Group: apiextensions.Group, Kind: v1.DefinitionKind}
	CompositionKind         = schema.GroupKind{Group: apiextensions.Group, Kind: v1.CompositionKind}
	functionKind            = pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind).GroupKind()
)

func (w *Workspace) addCompositeKinds() {
	for _, d := range w.Documents(CompositeDefinitionKind) {
		x, err := xrd.Read(d.Object)
		if err != nil {
			w.addf(d, Error, "spec", "cannot be decoded: %v", err)
			continue
		}
		w.add(d, Warning, "", xrd.Warnings(x))
		composite, problems := xrd.CompositeCRD(x, xrd.Options{})
		w.add(d, Error, "", problems)
		if composite == nil {
			continue
		}
		w.checkOwner(d, composite, "spec.names.kind")
		w.addCRD(composite)
		w.checkGenerated(d, composite, func(generated string) object.Path { return originInComposite(generated, "names", x, composite) })
		if x.Spec.ClaimNames != nil {
			if claim, problems := xrd.ClaimCRD(x, xrd.Options{}); len(problems) == 0 {
				w.checkOwner(d, claim, "spec.claimNames.kind")
				w.addCRD(claim)
				w.checkGenerated(d, claim, func(generated string) object.Path { return originInComposite(generated, "claimNames", x, claim) })
			}
		}
	}
}

func (w *Workspace) checkCompositions() {
	for _, d := range w.Documents(CompositionKind) {
		c := &v1.Composition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, c); err != nil {
			w.addf(d, Error, "spec", "cannot be decoded: %v", err)
			continue
		}
		w.add(d, Error, "", xrd.ValidateComposition(c))
		w.warnOfFunctions(d, c)
		composite := c.Spec.CompositeTypeRef.GroupVersionKind()
		switch kind, known := w.Lookup(composite); {
		case known || composite.Kind == "":
		case kind.NeverServed:
			w.add(d, Error, "", diag.List{diag.NeverServed("spec.compositeTypeRef", composite, kind)})
		default:
			w.addf(d, Warning, "spec.compositeTypeRef", "%s of %s is unknown here; add its CompositeResourceDefinition", composite.Kind, composite.GroupVersion())
		}
		w.checkSteps(d, c, composite)
	}
}

// It reports functions that are neither built in nor have a Function in the files: they might not be served.
func (w *Workspace) warnOfFunctions(d *Document, c *v1.Composition) {
	known := slices.Collect(maps.Keys(functions.BuiltIn()))
	for _, f := range w.Documents(functionKind) {
		known = append(known, f.Object.GetName())
	}
	for i, step := range c.Spec.Pipeline {
		name := step.FunctionRef.Name
		if name == "" || slices.Contains(known, name) {
			continue
		}
		w.add(d, Warning, "", diag.List{{
			Path: object.Path("spec.pipeline").Index(i).Field("functionRef", "name"), Nearest: nearestFunction(name, known),
			Problem: fmt.Sprintf("%s is not built in, and no Function of that name is here; serve it with --function %s=./program or an address, "+
				"or add its Function and let a package manager run it", name, name),
		}})
	}
}

// nearestFunction compares names without what most begin with: function-kcl and function-kro are not alike.
func nearestFunction(name string, known []string) string {
	const usual = "function-"
	short := make([]string, len(known))
	for i := range known {
		short[i] = strings.TrimPrefix(known[i], usual)
	}
	if i := slices.Index(short, diag.Nearest(strings.TrimPrefix(name, usual), short)); i >= 0 {
		return known[i]
	}
	return ""
}

// It checks the inputs of the steps with built-in functions, and the composed resources in them.
func (w *Workspace) checkSteps(d *Document, c *v1.Composition, composite schema.GroupVersionKind) {
	for i, step := range c.Spec.Pipeline {
		at := object.Path("spec.pipeline").Index(i).Field("input")
		input, isObject := xrd.InputOf(step)
		if !isObject {
			w.addf(d, Error, at, "is not an object")
			continue
		}
		function := w.builtInNameOf(step)
		problems, notes := functions.Check(function, input, i == 0, composite, w.Lookup)
		w.add(d, Error, at, problems)
		w.add(d, Warning, at, notes)
		kind, _ := w.Lookup(composite)
		check := stepCheck{w: w, d: d, at: at, composite: composite, kind: kind, isComplete: w.isLast(c.Spec.Pipeline[i+1:])}
		for _, t := range functions.Templates(function, input) {
			check.template(t)
		}
	}
}

// None of the later steps can add fields to composed resources.
func (w *Workspace) isLast(later []v1.PipelineStep) bool {
	return !slices.ContainsFunc(later, func(s v1.PipelineStep) bool {
		return !slices.Contains([]string{
			autoready.Name, autoready.PackageName, environment.Name, environment.PackageName, extraresources.Name, extraresources.PackageName,
			sequencer.Name, sequencer.PackageName,
		}, w.builtInNameOf(s))
	})
}

// builtInNameOf is the name of the built-in function of a step, which its Function may have under another name. It is the step's own name
// if there is none.
func (w *Workspace) builtInNameOf(step v1.PipelineStep) string {
	for _, f := range w.Documents(functionKind) {
		if f.Object.GetName() != step.FunctionRef.Name {
			continue
		}
		image, _, _ := unstructured.NestedString(f.Object.Object, "spec", "package")
		return functions.NameOf(step.FunctionRef.Name, image)
	}
	return step.FunctionRef.Name
}
