package functions

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/functions/answer"
	"github.com/espalier-dev/espalier/internal/composition/functions/autoready"
	"github.com/espalier-dev/espalier/internal/composition/functions/environment"
	"github.com/espalier-dev/espalier/internal/composition/functions/extraresources"
	"github.com/espalier-dev/espalier/internal/composition/functions/gotemplating"
	"github.com/espalier-dev/espalier/internal/composition/functions/patchandtransform"
	"github.com/espalier-dev/espalier/internal/composition/functions/sequencer"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/functions/graph"
)

// Lookup returns what is known of a kind.
type Lookup = func(schema.GroupVersionKind) (object.KindInfo, bool)

// Check lists the problems of the input of a built-in function, with paths in the input, before the function runs:
// those that make it fail for some composites, and notes on what may have no effect. lookUp returns what is known of
// kinds. Inputs of other functions have no problems.
func Check(function string, input map[string]any, isFirstStep bool, composite schema.GroupVersionKind, lookUp Lookup) (problems, notes diag.List) {
	if d := graph.DialectOf(function); d != nil {
		return d.Check(input, composite, lookUp)
	}
	switch function {
	case patchandtransform.Name, patchandtransform.PackageName:
		return patchandtransform.Check(input, isFirstStep)
	case autoready.Name, autoready.PackageName:
		return autoready.Check(input)
	case environment.Name, environment.PackageName:
		return environment.Check(input), nil
	case gotemplating.Name, gotemplating.PackageName:
		return gotemplating.Check(input)
	case extraresources.Name, extraresources.PackageName:
		return extraresources.Check(input), nil
	case sequencer.Name, sequencer.PackageName:
		return sequencer.Check(input), nil
	case answer.Name, answer.PackageName:
		return answer.Check(input), nil
	}
	return nil, nil
}

// Invalid lists the problems that make a built-in function fail with an input for every composite, whatever the schemas of kinds.
func Invalid(function string, input map[string]any, isFirstStep bool, composite schema.GroupVersionKind) diag.List {
	switch function {
	case patchandtransform.Name, patchandtransform.PackageName:
		return patchandtransform.Invalid(input, isFirstStep)
	case gotemplating.Name, gotemplating.PackageName:
		return gotemplating.Invalid(input)
	}
	problems, _ := Check(function, input, isFirstStep, composite, func(schema.GroupVersionKind) (object.KindInfo, bool) { return object.KindInfo{}, false })
	return problems
}
