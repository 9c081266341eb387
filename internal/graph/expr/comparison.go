package expr

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/espalier-dev/espalier/internal/graph/expr/library"
)

// boundComparison makes ==, != and in refuse lists and maps with too many values. A short expression makes a list that
// contains another one twice, and so on: nothing interrupts CEL while it compares such a list.
func boundComparison(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, is := i.(interpreter.InterpretableCall)
	if !is {
		return i, nil
	}
	switch call.Function() {
	case operators.Equals, operators.NotEquals, operators.In:
		args := call.Args()
		return bounded{InterpretableCall: call, left: args[0], right: args[1]}, nil
	}
	return i, nil
}

// bounded is ==, != or in, with the results of CEL's own.
type bounded struct {
	interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
}

// Eval implements interpreter.Interpretable.
func (c bounded) Eval(vars cel.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// Exec implements interpreter.InterpretableV2.
func (c bounded) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left, right, failed := operands(frame, c.left, c.right)
	if failed != nil {
		return failed
	}
	if hasParts(left) && hasParts(right) {
		if err := library.CheckSize(left); err != nil {
			return types.WrapErr(err)
		}
	}
	switch c.Function() {
	case operators.Equals:
		return types.Equal(left, right)
	case operators.NotEquals:
		return types.Bool(types.Equal(left, right) != types.True)
	}
	if container, is := right.(traits.Container); is {
		return container.Contains(left)
	}
	return types.ValOrErr(right, "no such overload")
}

// operands evaluates two operands. The first one that is unknown or an error has failed.
func operands(frame *interpreter.ExecutionFrame, x, y interpreter.InterpretableV2) (left, right, failed ref.Val) {
	left, right = x.Exec(frame), y.Exec(frame)
	switch {
	case types.IsUnknownOrError(left):
		failed = left
	case types.IsUnknownOrError(right):
		failed = right
	}
	return left, right, failed
}

func hasParts(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	}
	return false
}
