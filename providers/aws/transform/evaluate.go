package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

var errTooMuch = errors.New("the evaluation takes too long")

type scope struct {
	input     any
	variables map[string]any
}

type evaluation struct{ steps int }

// It is nil for no value. Numbers are float64.
func (e *evaluation) evaluate(n *node, s scope) (any, error) {
	if e.steps++; e.steps > maxSteps {
		return nil, errTooMuch
	}
	switch n.op {
	case opLiteral:
		return n.value, nil
	case opField:
		return field(s.input, n.name), nil
	case opVariable:
		return s.variables[n.name], nil
	case opContext:
		return s.input, nil
	case opConditional:
		return e.conditional(n, s)
	case "and", "or":
		return e.logical(n, s)
	case opPath:
		left, err := e.evaluate(n.args[0], s)
		if err != nil || left == nil {
			return nil, err
		}
		return e.evaluate(n.args[1], scope{left, s.variables})
	case opBlock:
		var last any
		inner := scope{s.input, map[string]any{}}
		for name, value := range s.variables {
			inner.variables[name] = value
		}
		for _, arg := range n.args {
			var err error
			if last, err = e.evaluate(arg, inner); err != nil {
				return nil, err
			}
		}
		return last, nil
	}
	args := make([]any, len(n.args))
	for i, arg := range n.args {
		var err error
		if args[i], err = e.evaluate(arg, s); err != nil {
			return nil, err
		}
	}
	return e.apply(n, args, s)
}

func (e *evaluation) apply(n *node, args []any, s scope) (any, error) {
	switch n.op {
	case opCall:
		if len(args) == 0 {
			args = append(args, s.input)
		}
		out, err := functions[n.name](args)
		if text, ok := out.(string); ok && len(text) > maxString {
			return nil, errTooMuch
		}
		return out, err
	case opAssign:
		s.variables[n.name] = args[0]
		return args[0], nil
	case opArray:
		return arrayOf(n, args), nil
	case opObject:
		out := map[string]any{}
		for i, name := range n.names {
			out[name] = args[i]
		}
		return out, nil
	case opIndex:
		return index(args[0], args[1])
	case opNegate:
		return arithmetic("-", 0.0, args[0])
	case "=", "!=":
		return args[0] != nil && args[1] != nil && equal(args[0], args[1]) == (n.op == "="), nil
	case "in":
		list, ok := args[1].([]any)
		if !ok {
			list = []any{args[1]}
		}
		for _, item := range list {
			if equal(args[0], item) {
				return true, nil
			}
		}
		return false, nil
	case "&":
		left, right := toText(args[0]), toText(args[1])
		if len(left)+len(right) > maxString {
			return nil, errTooMuch
		}
		return left + right, nil
	}
	return arithmetic(n.op, args[0], args[1])
}

func (e *evaluation) conditional(n *node, s scope) (any, error) {
	condition, err := e.evaluate(n.args[0], s)
	switch {
	case err != nil:
		return nil, err
	case truth(condition):
		return e.evaluate(n.args[1], s)
	case len(n.args) > 2:
		return e.evaluate(n.args[2], s)
	}
	return nil, nil
}

func (e *evaluation) logical(n *node, s scope) (any, error) {
	left, err := e.evaluate(n.args[0], s)
	if err != nil || truth(left) == (n.op == "or") {
		return truth(left), err
	}
	right, err := e.evaluate(n.args[1], s)
	return truth(right), err
}

// For an array, these are the properties of all its objects.
func field(input any, name string) any {
	switch v := input.(type) {
	case map[string]any:
		return v[name]
	case []any:
		var out []any
		for _, item := range v {
			if value := field(item, name); value != nil {
				out = append(out, value)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// A negative index counts from the end; a text is a property.
func index(value, at any) (any, error) {
	if name, ok := at.(string); ok {
		return field(value, name), nil
	}
	f, ok := at.(float64)
	if !ok {
		return nil, fmt.Errorf("%w: a filter", errUnsupported)
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	i := int(math.Floor(f))
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return nil, nil
	}
	return list[i], nil
}

// Items of other arrays become items of it, and parts without a value are left out.
func arrayOf(n *node, args []any) []any {
	out := []any{}
	for i, arg := range args {
		if list, isList := arg.([]any); isList && n.args[i].op != opArray {
			out = append(out, list...)
		} else if arg != nil {
			out = append(out, arg)
		}
	}
	return out
}

func arithmetic(op string, a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	if left, ok := a.(string); ok {
		if right, both := b.(string); both {
			return compared(op, strings.Compare(left, right))
		}
	}
	x, isNumber := asNumber(a)
	y, areNumbers := asNumber(b)
	if !isNumber || !areNumbers {
		return nil, fmt.Errorf("%s of values that are not numbers", op)
	}
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "/":
		if y == 0 {
			return nil, errors.New("a division by zero")
		}
		return x / y, nil
	case "%":
		if y == 0 {
			return nil, errors.New("a division by zero")
		}
		return math.Mod(x, y), nil
	}
	switch {
	case x < y:
		return compared(op, -1)
	case x > y:
		return compared(op, 1)
	}
	return compared(op, 0)
}

func compared(op string, order int) (any, error) {
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	case ">=":
		return order >= 0, nil
	}
	return nil, fmt.Errorf("%w: %s of strings", errUnsupported, op)
}

// truth reports whether a value counts as true.
func truth(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0
	case int64:
		return v != 0
	case []any:
		for _, item := range v {
			if truth(item) {
				return true
			}
		}
		return false
	case map[string]any:
		return len(v) > 0
	}
	return true
}

func equal(a, b any) bool {
	x, xErr := asNumber(a)
	y, yErr := asNumber(b)
	if xErr && yErr {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}

func asNumber(value any) (float64, bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	}
	return 0, false
}

func number(value any) (float64, error) {
	switch v := value.(type) {
	case float64:
		return v, nil
	case int64:
		return float64(v), nil
	case string:
		return strconv.ParseFloat(v, 64)
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	}
	return 0, fmt.Errorf("%T is not a number", value)
}

func toText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(raw)
}
