package library

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
)

// Omit is the name of the function by which an expression leaves its field out.
const Omit = "omit"

// omission declares omit(). Its type is any, so that it may stand beside whatever the
// field would have been.
func omission() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Function(Omit, cel.Overload("omit", nil, cel.DynType, cel.FunctionBinding(func(...ref.Val) ref.Val { return plain.Omitted{} }))),
	}
}
