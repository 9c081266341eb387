package library

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
)

// Omit is the name of the function that leaves out the field of its expression.
const Omit = "omit"

// omitFunction declares omit(). Its type is dyn, so it can be an alternative to a value of any type.
func omitFunction() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Function(Omit, cel.Overload("omit", nil, cel.DynType, cel.FunctionBinding(func(...ref.Val) ref.Val { return plain.Omitted{} }))),
	}
}
