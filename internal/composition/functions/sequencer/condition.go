package sequencer

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/object/regexps"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

var environment = sync.OnceValues(func() (*cel.Env, error) {
	state := cel.ObjectType("apiextensions.fn.proto.v1.State")
	return cel.NewEnv(
		cel.Types(&fnv1.State{}, &structpb.Struct{}),
		cel.Variable("observed", state), cel.Variable("desired", state),
		cel.Variable("context", cel.ObjectType("google.protobuf.Struct")),
	)
})

// maxCost bounds a condition, in CEL's cost units.
const maxCost = 100_000

// costs counts the copies that counted repetitions make of a pattern, instead of its characters.
type costs struct{}

// CallCost implements interpreter.ActualCostEstimator.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != "matches" {
		return nil
	}
	return regexps.Cost(args[0], args[1])
}

func compile(condition string) (cel.Program, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(condition)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("at %d: %s", first.Location.Column()+1, first.Message)
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the result must be a boolean, not %s", t)
	}
	return env.Program(ast, cel.CostLimit(maxCost), cel.CostTracking(costs{}), cel.CustomDecoratorV2(regexps.Bound))
}

// isMet evaluates a condition on a request.
func isMet(condition string, r *fnv1.RunFunctionRequest) (bool, error) {
	program, err := compile(condition)
	if err != nil {
		return false, err
	}
	value, _, err := program.Eval(map[string]any{"observed": r.GetObserved(), "desired": r.GetDesired(), "context": r.GetContext()})
	if err != nil {
		return false, err
	}
	is, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the result must be a boolean, not %s", value.Type().TypeName())
	}
	return is, nil
}
