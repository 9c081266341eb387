package expr

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Skipped is the value of a name that has no value on purpose. Read through ?. or [?…] it is absent, and has() of a path
// in it is false. An expression that needs it otherwise has no value: the error is a *NeedsSkipped.
var Skipped any = skipped{}

type skipped struct{}

// NeedsSkipped is the error of an evaluation that needs a skipped name, whatever else may come.
type NeedsSkipped struct{ Name string }

func (n *NeedsSkipped) Error() string { return n.Name + " is skipped" }

// skippedValue is Skipped in CEL. It supports selections only.
type skippedValue struct{ name string }

var (
	skippedType                    = types.NewObjectType("skipped")
	_           traits.Indexer     = skippedValue{}
	_           traits.FieldTester = skippedValue{}
)

func (v skippedValue) err() ref.Val { return types.WrapErr(&NeedsSkipped{v.name}) }

// Get is the selection of a field that must exist.
func (v skippedValue) Get(ref.Val) ref.Val { return v.err() }

// IsSet is has(), or a selection by ?. or [?…].
func (v skippedValue) IsSet(ref.Val) ref.Val { return types.False }

// ConvertToNative fails.
func (v skippedValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s is skipped and has no value of type %s", v.name, t)
}

// ConvertToType fails.
func (v skippedValue) ConvertToType(ref.Type) ref.Val { return v.err() }

// Equal fails.
func (v skippedValue) Equal(ref.Val) ref.Val { return v.err() }

// Type is a type that only skipped values have.
func (v skippedValue) Type() ref.Type { return skippedType }

// Value is nil.
func (v skippedValue) Value() any { return nil }

// needsSkipped returns the reason of a failed evaluation if that is a skipped name; nil otherwise.
func needsSkipped(err error) error {
	var needs *NeedsSkipped
	if errors.As(err, &needs) {
		return needs
	}
	return nil
}

// wholeRead is a declared name that an expression reads as a whole, or, if isTest, has() of a path in one.
type wholeRead struct {
	interpreter.InterpretableV2
	name   string
	isTest bool
}

// Eval implements interpreter.Interpretable.
func (w wholeRead) Eval(vars interpreter.Activation) ref.Val {
	return w.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2. CEL itself would fail in has() of a path that is missing before its last
// field, and would pass a skipped value as a whole to functions.
func (w wholeRead) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value, _ := frame.ResolveName(w.name)
	v, isSkipped := value.(skippedValue)
	switch {
	case isSkipped && w.isTest:
		return types.False
	case isSkipped:
		return v.err()
	}
	return w.InterpretableV2.Exec(frame)
}
