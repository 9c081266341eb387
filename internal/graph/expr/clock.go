package expr

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// time.now() has a type of its own, and so has the time since or until a timestamp. They can only be compared: the
// moment at which a comparison changes its result is known, so an instance is reconciled then, and not all the time.
var (
	nowType = cel.OpaqueType("time.Now")
	ageType = cel.OpaqueType("time.Age")
)

// nowVariable stands for time.now(). No expression can contain the name.
const nowVariable = "@now"

var mirrored = map[string]string{
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
}

// clockOptions declare time.now() and what can be done with it. moving evaluates it.
func clockOptions() []cel.EnvOption {
	options := []cel.EnvOption{
		cel.Macros(cel.ReceiverMacro("now", 0, func(eh cel.MacroExprFactory, target ast.Expr, _ []ast.Expr) (ast.Expr, *cel.Error) {
			if target.Kind() != ast.IdentKind || target.AsIdent() != "time" {
				return nil, nil //nolint:nilnil // so a macro says that it does not apply
			}
			return eh.NewIdent(nowVariable), nil
		})),
		cel.Variable(nowVariable, nowType),
		cel.Function(operators.Add, cel.Overload("add_now_duration", []*cel.Type{nowType, cel.DurationType}, nowType),
			cel.Overload("add_duration_now", []*cel.Type{cel.DurationType, nowType}, nowType)),
		cel.Function(operators.Subtract, cel.Overload("subtract_now_duration", []*cel.Type{nowType, cel.DurationType}, nowType),
			cel.Overload("subtract_now_timestamp", []*cel.Type{nowType, cel.TimestampType}, ageType),
			cel.Overload("subtract_timestamp_now", []*cel.Type{cel.TimestampType, nowType}, ageType)),
	}
	for operator := range mirrored {
		name := strings.Trim(operator, "_")
		options = append(options, cel.Function(operator,
			cel.Overload("now_"+name+"_timestamp", []*cel.Type{nowType, cel.TimestampType}, cel.BoolType),
			cel.Overload("timestamp_"+name+"_now", []*cel.Type{cel.TimestampType, nowType}, cel.BoolType),
			cel.Overload("age_"+name+"_duration", []*cel.Type{ageType, cel.DurationType}, cel.BoolType),
			cel.Overload("duration_"+name+"_age", []*cel.Type{cel.DurationType, ageType}, cel.BoolType)))
	}
	return options
}

// isMoving reports whether values of a type change with time alone, or contain such values.
func isMoving(t *cel.Type) bool {
	if t == nil {
		return false
	}
	for _, p := range t.Parameters() {
		if isMoving(p) {
			return true
		}
	}
	return t.Kind() == cel.OpaqueKind && (t.TypeName() == nowType.TypeName() || t.TypeName() == ageType.TypeName())
}

// clock is the time of evaluations, and when the first of their comparisons with it changes.
type clock struct {
	now, next time.Time
}

// compare compares the time with another.
func (c *clock) compare(operator string, with time.Time) bool {
	var result bool
	changes := with
	switch operator {
	case operators.Less:
		result = c.now.Before(with)
	case operators.GreaterEquals:
		result = !c.now.Before(with)
	case operators.Greater:
		result, changes = c.now.After(with), with.Add(1)
	case operators.LessEquals:
		result, changes = !c.now.After(with), with.Add(1)
	}
	if changes.After(c.now) && (c.next.IsZero() || changes.Before(c.next)) {
		c.next = changes
	}
	return result
}

// moment is the time of a clock, and age the time since a moment, or with until the time to it.
type (
	moment struct {
		clock *clock
		shift time.Duration
	}
	age struct {
		clock *clock
		from  time.Time
		until bool
	}
)

// shifted has another shift, unless that is an error.
func (m moment) shifted(shift ref.Val) ref.Val {
	if d, ok := shift.(types.Duration); ok {
		return moment{m.clock, d.Duration}
	}
	return shift
}

// operate returns the result of an operator with a moment or an age.
func operate(operator string, left, right ref.Val) ref.Val {
	switch l := left.(type) {
	case moment:
		switch r := right.(type) {
		case types.Duration:
			if operator == operators.Subtract {
				return l.shifted(types.Duration{Duration: l.shift}.Subtract(r))
			}
			return l.shifted(types.Duration{Duration: l.shift}.Add(r))
		case types.Timestamp:
			if operator == operators.Subtract {
				return age{l.clock, r.Time.Add(-l.shift), false}
			}
			return types.Bool(l.clock.compare(operator, r.Time.Add(-l.shift)))
		}
	case age:
		d, ok := right.(types.Duration)
		switch {
		case !ok:
		case l.until:
			return types.Bool(l.clock.compare(mirrored[operator], l.from.Add(-d.Duration)))
		default:
			return types.Bool(l.clock.compare(operator, l.from.Add(d.Duration)))
		}
	case types.Timestamp:
		if r, ok := right.(moment); ok {
			if operator == operators.Subtract {
				return age{r.clock, l.Time.Add(-r.shift), true}
			}
			return types.Bool(r.clock.compare(mirrored[operator], l.Time.Add(-r.shift)))
		}
	case types.Duration:
		switch r := right.(type) {
		case moment:
			return r.shifted(l.Add(types.Duration{Duration: r.shift}))
		case age:
			return operate(mirrored[operator], right, left)
		}
	}
	return types.MaybeNoSuchOverloadErr(right)
}

// moving makes the operators of a checked expression take moments and ages.
func moving(checked *ast.AST) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, is := i.(interpreter.InterpretableCall)
		if !is || len(call.Args()) != 2 {
			return i, nil
		}
		left, right := call.Args()[0], call.Args()[1]
		if !isMoving(checked.GetType(left.ID())) && !isMoving(checked.GetType(right.ID())) {
			return i, nil
		}
		switch call.Function() {
		case operators.Add, operators.Subtract, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
			return movingCall{call, left, right}, nil
		}
		return i, nil
	}
}

type movingCall struct {
	interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
}

// Eval implements interpreter.Interpretable.
func (c movingCall) Eval(vars cel.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// Exec implements interpreter.InterpretableV2.
func (c movingCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left, right, failed := operands(frame, c.left, c.right)
	if failed != nil {
		return failed
	}
	return operate(c.Function(), left, right)
}

// What CEL asks of a value. Checked expressions do not get there, except through dyn().

// ConvertToNative implements ref.Val.
func (moment) ConvertToNative(reflect.Type) (any, error) { return nil, errMoving }

// ConvertToType implements ref.Val.
func (moment) ConvertToType(ref.Type) ref.Val { return types.WrapErr(errMoving) }

// Equal implements ref.Val.
func (moment) Equal(ref.Val) ref.Val { return types.False }

// Type implements ref.Val.
func (moment) Type() ref.Type { return nowType }

// Value implements ref.Val.
func (m moment) Value() any { return m.clock.now.Add(m.shift) }

// ConvertToNative implements ref.Val.
func (age) ConvertToNative(reflect.Type) (any, error) { return nil, errMoving }

// ConvertToType implements ref.Val.
func (age) ConvertToType(ref.Type) ref.Val { return types.WrapErr(errMoving) }

// Equal implements ref.Val.
func (age) Equal(ref.Val) ref.Val { return types.False }

// Type implements ref.Val.
func (age) Type() ref.Type { return ageType }

// Value implements ref.Val.
func (a age) Value() any { return a.clock.now.Sub(a.from) }

var errMoving = fmt.Errorf("time.now() can only be compared, with <, <=, > or >=")
