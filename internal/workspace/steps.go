package workspace

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/functions/autoready"
	"github.com/espalier-dev/espalier/internal/functions/environment"
	"github.com/espalier-dev/espalier/internal/functions/graph"
	"github.com/espalier-dev/espalier/internal/functions/patchandtransform"
	"github.com/espalier-dev/espalier/internal/object"
)

// checkInput lists the problems of the input of a built-in function, with paths in the input, before
// the function runs: those because of which it fails, and notes on what may have no effect. lookUp returns what is known of kinds. Inputs
// of other functions have no problems.
func checkInput(function string, input map[string]any, isFirstStep bool, composite schema.GroupVersionKind, lookUp func(schema.GroupVersionKind) (object.KindInfo, bool)) (problems, notes diag.List) {
	switch function {
	case graph.Name, graph.PackageName:
		return graph.Check(input, composite, lookUp)
	case patchandtransform.Name, patchandtransform.PackageName:
		return patchandtransform.Check(input, isFirstStep)
	case autoready.Name, autoready.PackageName:
		return autoready.Check(input)
	case environment.Name, environment.PackageName:
		return environment.Check(input), nil
	}
	return nil, nil
}
