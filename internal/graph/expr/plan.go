package expr

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	k8slibrary "k8s.io/apiserver/pkg/cel/library"

	"github.com/espalier-dev/espalier/internal/graph/expr/library"
)

// A cel.Program keeps what it was planned with: a table of all functions, of 13 KiB, which the planned expression
// does not need any more. So a Program keeps only the planned expression. To evaluate it, a cel.Program that is made
// once, the evaluator, delegates to it: CEL's own evaluation is the same, with the limit and the count of the cost.

// planRoot is the call around an expression in which its plan is found. No expression can name it.
const planRoot = "@plan"

// plan returns the planned expression, which evaluatorWith evaluates if it was made for the same cost limit.
func plan(planner *cel.Env, checked *ast.AST, limit uint64, decorate interpreter.InterpretableDecoratorV2) (interpreter.InterpretableV2, error) {
	const id = -1 // not that of a part of the expression
	call := ast.NewExprFactory().NewCall(id, planRoot, checked.Expr())
	var planned interpreter.InterpretableV2
	// Arguments are planned completely before the call is decorated.
	find := cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if call, is := i.(interpreter.InterpretableCall); is && call.Function() == planRoot {
			planned = call.Args()[0]
		}
		return i, nil
	})
	comparisons, regexps := cel.CustomDecoratorV2(boundComparison), cel.CustomDecoratorV2(library.BoundRegexps)
	options := append(costOptions(limit), cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(decorate), comparisons, regexps, find)
	_, err := planner.PlanProgram(ast.NewCheckedAST(ast.NewAST(call, checked.SourceInfo()), checked.TypeMap(), checked.ReferenceMap()), options...)
	if err == nil && planned == nil {
		err = errors.New("the expression has no plan")
	}
	return planned, err
}

// costOptions count the cost of an evaluation and limit it; with a limit of 0, neither.
func costOptions(limit uint64) []cel.ProgramOption {
	if limit == 0 {
		return nil
	}
	return []cel.ProgramOption{cel.CostLimit(limit), cel.CostTracking(&costEstimator{})}
}

// costEstimator is that of Kubernetes, which visits all values of some arguments, however many there are, and takes the
// length of a pattern for the size of the regular expression.
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
		return library.RegexpCost(args[0], args[1])
	}
	return e.CostEstimator.CallCost(function, overload, args, result)
}

var evaluators struct {
	mu      sync.Mutex
	byLimit map[uint64]cel.Program
}

// evaluatorWith returns the program that evaluates the planned expression of an activation. There is one for each cost
// limit, of which the code has few.
func evaluatorWith(limit uint64) (cel.Program, error) {
	evaluators.mu.Lock()
	defer evaluators.mu.Unlock()
	if known := evaluators.byLimit[limit]; known != nil {
		return known, nil
	}
	declared, err := base()
	if err != nil {
		return nil, fmt.Errorf("the expression library: %w", err)
	}
	checked, issues := declared.Compile("null")
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	made, err := declared.Program(checked, append(costOptions(limit), cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		return delegate{i.ID()}, nil
	}))...)
	if err != nil {
		return nil, err
	}
	if evaluators.byLimit == nil {
		evaluators.byLimit = map[uint64]cel.Program{}
	}
	evaluators.byLimit[limit] = made
	return made, nil
}

// delegate evaluates the planned expression of the activation.
type delegate struct{ id int64 }

// ID implements interpreter.Interpretable.
func (d delegate) ID() int64 { return d.id }

// Eval implements interpreter.Interpretable.
func (d delegate) Eval(vars interpreter.Activation) ref.Val { return d.Exec(interpreter.AsFrame(vars)) }

// Exec implements interpreter.InterpretableV2.
func (d delegate) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return frame.Activation.(activation).planned.Exec(frame)
}
