package expr

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	k8slibrary "k8s.io/apiserver/pkg/cel/library"

	"github.com/espalier-dev/espalier/internal/graph/expr/library"
	"github.com/espalier-dev/espalier/internal/object/regexps"
)

// programOf returns the program of a checked expression, with its evaluation limited to a cost; a limit of 0 is none.
func programOf(planner *cel.Env, checked *ast.AST, limit uint64, decorate interpreter.InterpretableDecoratorV2) (cel.Program, error) {
	return planner.PlanProgram(checked, append(costOptions(limit), cel.EvalOptions(cel.OptOptimize),
		cel.CustomDecoratorV2(decorate), cel.CustomDecoratorV2(boundComparison), cel.CustomDecoratorV2(regexps.Bound), cel.CustomDecoratorV2(moving(checked)))...)
}

// costOptions count the cost of an evaluation and limit it; with a limit of 0, neither.
func costOptions(limit uint64) []cel.ProgramOption {
	if limit == 0 {
		return nil
	}
	return []cel.ProgramOption{cel.CostLimit(limit), cel.CostTracking(&costEstimator{})}
}

// costEstimator wraps the estimator of Kubernetes, which visits all values of some arguments, however many there are,
// and takes the length of a pattern for the size of the regular expression.
type costEstimator struct{ k8slibrary.CostEstimator }

// CallCost implements interpreter.ActualCostEstimator.
func (e *costEstimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	switch function {
	case "isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes":
		for _, arg := range args {
			if library.CheckSize(arg) != nil {
				tooMuch := uint64(math.MaxUint32)
				return &tooMuch
			}
		}
	case "matches", "find", "findAll":
		return regexps.Cost(args[0], args[1])
	}
	return e.CostEstimator.CallCost(function, overload, args, result)
}
