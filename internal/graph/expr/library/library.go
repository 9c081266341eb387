// Package library holds the functions that the graph dialect adds to CEL. Each
// is deterministic: its result depends on its arguments alone.
//
// Pure: it decides from values alone.
package library

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// All returns the options that declare every function of this package. They must follow the options of CEL's
// libraries of strings, lists and encoders and of Kubernetes' quantities: they replace some of those functions.
func All() []cel.EnvOption {
	var all []cel.EnvOption
	for _, group := range [][]cel.EnvOption{hashFunctions(), jsonFunctions(), randomFunctions(), mapFunctions(), listFunctions(), sizeLimited(),
		argumentsLimited(), omitFunction(), simpleSchemaFunctions()} {
		all = append(all, group...)
	}
	return all
}

func noOverload(v ref.Val) ref.Val { return types.MaybeNoSuchOverloadErr(v) }
