package library

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
	k8slibrary "k8s.io/apiserver/pkg/cel/library"
)

// Bounds of arguments. CEL counts the cost of a call only after it, and no deadline interrupts a call.
const (
	// maxValues bounds the values that a call visits; one that an argument contains twice counts twice.
	maxValues      = 1_000_000
	maxComparisons = 100_000_000
)

var errTooManyValues = errors.New("the arguments have too many values")

// CheckSize returns an error if the values in v, together, are too many to visit.
func CheckSize(v ref.Val) error {
	return check(v, &counter{remaining: maxValues, maps: true, bytesPerValue: 64})
}

// checkLists is CheckSize for functions that visit lists of lists alone.
func checkLists(v ref.Val) error { return check(v, &counter{remaining: maxValues}) }

// checkText is CheckSize for functions that write all of v.
func checkText(v ref.Val) error {
	return check(v, &counter{remaining: maxStringBytes, maps: true, bytesPerValue: 1})
}

// checkDistinct bounds a list whose items are all compared with each other.
func checkDistinct(v ref.Val) error {
	items := 1
	if list, ok := v.(traits.Lister); ok {
		items = max(int(list.Size().(types.Int)), 1)
	}
	return check(v, &counter{remaining: min(maxComparisons/items, maxValues), maps: true, bytesPerValue: 64})
}

func check(v ref.Val, c *counter) error {
	if !c.visit(v) {
		return errTooManyValues
	}
	return nil
}

type counter struct {
	remaining int
	// maps counts the values of maps, too.
	maps bool
	// bytesPerValue, if set, counts so many bytes of a string as a value.
	bytesPerValue int
}

// visit counts v and the values in it, and reports whether they are within the limit.
func (c *counter) visit(v ref.Val) bool {
	c.remaining--
	switch v := v.(type) {
	case traits.Lister:
		for it := v.Iterator(); c.remaining >= 0 && it.HasNext() == types.True; {
			c.visit(it.Next())
		}
	case traits.Mapper:
		if !c.maps {
			break
		}
		for it := v.Iterator(); c.remaining >= 0 && it.HasNext() == types.True; {
			c.visit(v.Get(it.Next()))
		}
	case types.String:
		if c.bytesPerValue > 0 {
			c.remaining -= len(v) / c.bytesPerValue
		}
	}
	return c.remaining >= 0
}

// argumentsLimited replaces functions of CEL and Kubernetes by ones that refuse arguments that would take hours or
// exhaust the memory.
func argumentsLimited() []cel.EnvOption {
	text, count := cel.StringType, cel.IntType
	out := []cel.EnvOption{
		cel.Function("indexOf",
			cel.MemberOverload("string_index_of_string", []*cel.Type{text, text}, count, cel.BinaryBinding(indexOf)),
			cel.MemberOverload("string_index_of_string_int", []*cel.Type{text, text, count}, count, cel.FunctionBinding(indexOfFrom))),
		cel.Function("lastIndexOf",
			cel.MemberOverload("string_last_index_of_string", []*cel.Type{text, text}, count, cel.BinaryBinding(lastIndexOf)),
			cel.MemberOverload("string_last_index_of_string_int", []*cel.Type{text, text, count}, count, cel.FunctionBinding(lastIndexOfFrom))),
		cel.Function("quantity", cel.Overload("string_to_quantity", []*cel.Type{text}, apiservercel.QuantityType, cel.UnaryBinding(quantity))),
		cel.Function("isQuantity", cel.Overload("is_quantity_string", []*cel.Type{text}, cel.BoolType, cel.UnaryBinding(func(v ref.Val) ref.Val {
			if _, ok := v.(types.String); !ok {
				return noOverload(v)
			}
			return types.Bool(!types.IsError(quantity(v)))
		}))),
	}
	return append(out, checked("format", checkText), checked("flatten", checkLists), checked("distinct", checkDistinct),
		checked("indexOf", CheckSize), checked("lastIndexOf", CheckSize))
}

// checked is a function of the libraries of CEL and Kubernetes whose arguments are checked first.
func checked(name string, check func(ref.Val) error) cel.EnvOption {
	return func(e *cel.Env) (*cel.Env, error) {
		libraries, err := cel.NewEnv(ext.Strings(), ext.Lists(), k8slibrary.Lists())
		if err != nil {
			return nil, err
		}
		declared := libraries.Functions()[name]
		bindings, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		implementations := map[string]*functions.Overload{}
		for _, b := range bindings {
			implementations[b.Operator] = b
		}
		var overloads []cel.FunctionOpt
		for _, o := range declared.OverloadDecls() {
			if strings.HasPrefix(o.ID(), "string_") && strings.HasSuffix(name, "ndexOf") {
				continue // indexOf and lastIndexOf replace it
			}
			b := implementations[o.ID()]
			if b == nil {
				return nil, fmt.Errorf("the overload %s has no implementation", o.ID())
			}
			overloads = append(overloads, cel.MemberOverload(o.ID(), o.ArgTypes(), o.ResultType(), afterCheck(check, b)))
		}
		return cel.Function(name, overloads...)(e)
	}
}

// afterCheck binds an implementation that runs if no argument fails the check.
func afterCheck(check func(ref.Val) error, b *functions.Overload) cel.OverloadOpt {
	if b.Unary != nil {
		return cel.UnaryBinding(func(v ref.Val) ref.Val {
			if err := check(v); err != nil {
				return types.WrapErr(err)
			}
			return b.Unary(v)
		})
	}
	if b.Binary != nil {
		return cel.BinaryBinding(func(x, y ref.Val) ref.Val {
			if err := errors.Join(check(x), check(y)); err != nil {
				return types.WrapErr(err)
			}
			return b.Binary(x, y)
		})
	}
	return cel.FunctionBinding(func(args ...ref.Val) ref.Val {
		for _, v := range args {
			if err := check(v); err != nil {
				return types.WrapErr(err)
			}
		}
		return b.Function(args...)
	})
}

// indexOf returns the index of a text in another one, in characters. CEL's implementation needs as many steps as the
// product of their lengths.
func indexOf(in, of ref.Val) ref.Val { return indexOfFrom(in, of, types.Int(0)) }

func indexOfFrom(args ...ref.Val) ref.Val {
	in, of, from, failed := search(args)
	if failed != nil {
		return failed
	}
	length := utf8.RuneCountInString(in)
	switch {
	case of == "":
		return types.Int(min(from, length))
	case from >= length:
		return types.Int(-1)
	}
	rest := in[offset(in, from):]
	at := strings.Index(rest, of)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(from + utf8.RuneCountInString(rest[:at]))
}

func lastIndexOf(in, of ref.Val) ref.Val {
	text, ok := in.(types.String)
	if !ok {
		return noOverload(in)
	}
	length := utf8.RuneCountInString(string(text))
	if sub, ok := of.(types.String); ok && sub != "" {
		length = max(length-1, 0)
	}
	return lastIndexOfFrom(in, of, types.Int(length))
}

func lastIndexOfFrom(args ...ref.Val) ref.Val {
	in, of, from, failed := search(args)
	if failed != nil {
		return failed
	}
	length := utf8.RuneCountInString(in)
	switch {
	case of == "":
		return types.Int(min(from, length))
	case from >= length:
		return types.Int(-1)
	}
	end := min(offset(in, from)+len(of), len(in))
	at := strings.LastIndex(in[:end], of)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(in[:at]))
}

// search returns the arguments of a search, or the result of a search that ends early.
func search(args []ref.Val) (in, of string, from int, failed ref.Val) {
	text, ok := args[0].(types.String)
	if !ok {
		return "", "", 0, noOverload(args[0])
	}
	sub, ok := args[1].(types.String)
	if !ok {
		return "", "", 0, noOverload(args[1])
	}
	at, ok := args[2].(types.Int)
	if !ok {
		return "", "", 0, noOverload(args[2])
	}
	if at < 0 {
		return "", "", 0, types.WrapErr(fmt.Errorf("index out of range: %d", at))
	}
	return string(text), string(sub), int(at), nil
}

// offset is where a character of a text begins.
func offset(text string, character int) int {
	for i := range text {
		if character == 0 {
			return i
		}
		character--
	}
	return len(text)
}

// largeExponent finds an exponent of four digits or more, not counting leading zeros.
var largeExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3}`)

// quantity parses a quantity. One with a large exponent needs hours, or all memory, as the integers it is made of have
// as many digits.
func quantity(v ref.Val) ref.Val {
	s, ok := v.(types.String)
	if !ok {
		return noOverload(v)
	}
	if largeExponent.MatchString(string(s)) {
		return types.WrapErr(errors.New("the exponent of a quantity must be between -999 and 999"))
	}
	q, err := resource.ParseQuantity(string(s))
	if err != nil {
		return types.WrapErr(err)
	}
	return apiservercel.Quantity{Quantity: &q}
}
