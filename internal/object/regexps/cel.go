package regexps

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// Bound makes matches, find and findAll refuse patterns and texts that would take them too long. Nothing
// interrupts them.
func Bound(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, is := i.(interpreter.InterpretableCall)
	if !is {
		return i, nil
	}
	switch call.Function() {
	case "matches", "find", "findAll":
	default:
		return i, nil
	}
	c := regexpCall{InterpretableCall: call}
	for _, arg := range call.Args() {
		c.args = append(c.args, hidden{arg})
	}
	if len(c.args) < 2 {
		return i, nil
	}
	constant, is := call.Args()[1].(interpreter.InterpretableConst)
	if !is {
		return c, nil
	}
	pattern, is := constant.Value().(types.String)
	if !is {
		return i, nil
	}
	var err error
	c.constant, err = Compile(string(pattern))
	return c, err
}

type regexpCall struct {
	interpreter.InterpretableCall
	args []interpreter.InterpretableV2
	// constant is set if the pattern is a constant.
	constant *Regexp
}

// hidden is an argument that CEL does not recognize as a constant: it would replace the call by an unbounded one.
type hidden struct{ interpreter.InterpretableV2 }

// Args implements interpreter.InterpretableCall.
func (c regexpCall) Args() []interpreter.InterpretableV2 { return c.args }

// Eval implements interpreter.Interpretable.
func (c regexpCall) Eval(vars cel.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// Exec implements interpreter.InterpretableV2.
func (c regexpCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	values := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		if values[i] = arg.Exec(frame); types.IsUnknownOrError(values[i]) {
			return values[i]
		}
	}
	text, is := values[0].(types.String)
	if !is {
		return types.MaybeNoSuchOverloadErr(values[0])
	}
	re := c.constant
	if re == nil {
		pattern, is := values[1].(types.String)
		if !is {
			return types.MaybeNoSuchOverloadErr(values[1])
		}
		var err error
		if re, err = Compile(string(pattern)); err != nil {
			return types.WrapErr(err)
		}
	}
	switch c.Function() {
	case "matches":
		return result(re.Matches(string(text)))
	case "find":
		return result(re.Find(string(text)))
	}
	limit := -1
	if len(values) > 2 {
		n, is := values[2].(types.Int)
		if !is {
			return types.MaybeNoSuchOverloadErr(values[2])
		}
		limit = int(n)
	}
	return result(re.FindAll(string(text), limit))
}

func result(v any, err error) ref.Val {
	if err != nil {
		return types.WrapErr(err)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// Cost is the CEL cost of matches, find and findAll, as CEL and Kubernetes count it, but with the copies that
// counted repetitions make of a pattern.
func Cost(text, pattern ref.Val) *uint64 {
	in, is := text.(types.String)
	if !is {
		return nil
	}
	re, is := pattern.(types.String)
	if !is {
		return nil
	}
	size := utf8.RuneCountInString(string(re))
	if strings.Contains(string(re), "{") {
		if parsed, err := parse(string(re)); err == nil {
			size = max(size, instructions(parsed))
		}
	}
	characters := utf8.RuneCountInString(string(in)) + 1
	cost := uint64(math.Ceil(float64(characters)*common.StringTraversalCostFactor)) * uint64(math.Ceil(float64(size)*common.RegexStringLengthCostFactor))
	return &cost
}
