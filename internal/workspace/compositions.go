package workspace

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/apiextensions"
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/functions"
	"github.com/espalier-dev/espalier/internal/object"
)

// Kinds of the composition dialect.
var (
	compositeDefinitionKind = schema.GroupKind{Group: apiextensions.Group, Kind: v1.DefinitionKind}
	compositionKind         = schema.GroupKind{Group: apiextensions.Group, Kind: v1.CompositionKind}
)

// addCompositeKinds checks CompositeResourceDefinitions, and adds their kinds.
func (w *Workspace) addCompositeKinds() {
	for _, d := range w.Documents(compositeDefinitionKind) {
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

// checkCompositions checks Compositions, and the inputs of the built-in functions.
func (w *Workspace) checkCompositions() {
	for _, d := range w.Documents(compositionKind) {
		c := &v1.Composition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, c); err != nil {
			w.addf(d, Error, "spec", "cannot be decoded: %v", err)
			continue
		}
		w.add(d, Error, "", xrd.ValidateComposition(c))
		if w.options.Functions != nil {
			w.add(d, Error, "", xrd.UnknownFunctions(c, w.options.Functions))
		}
		composite := schema.FromAPIVersionAndKind(c.Spec.CompositeTypeRef.APIVersion, c.Spec.CompositeTypeRef.Kind)
		if kind, known := w.Lookup(composite); !known && !kind.NeverServed && composite.Kind != "" {
			w.addf(d, Warning, "spec.compositeTypeRef", "%s of %s is not known here; add its CompositeResourceDefinition", composite.Kind, composite.GroupVersion())
		}
		w.checkSteps(d, c, composite)
	}
}

// checkSteps checks the inputs of the steps with built-in functions.
func (w *Workspace) checkSteps(d *Document, c *v1.Composition, composite schema.GroupVersionKind) {
	for i, step := range c.Spec.Pipeline {
		at := object.Path("spec.pipeline").Index(i).Field("input")
		input, isObject := xrd.InputOf(step)
		if !isObject {
			w.addf(d, Error, at, "is not an object")
			continue
		}
		problems, notes := functions.Check(step.FunctionRef.Name, input, i == 0, composite, w.Lookup)
		w.add(d, Error, at, problems)
		w.add(d, Warning, at, notes)
	}
}
