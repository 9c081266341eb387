package plain

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Omitted is the CEL value of omit(), which becomes Absent in JSON. It supports no other
// operation.
type Omitted struct{}

var omittedType = types.NewObjectType("omitted")

// ConvertToNative fails.
func (Omitted) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("the result of omit() has no value of type %s", t)
}

// ConvertToType fails.
func (Omitted) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("the result of omit() has no value of type %s", t.TypeName())
}

// Equal says that all results of omit() are equal.
func (Omitted) Equal(other ref.Val) ref.Val {
	_, same := other.(Omitted)
	return types.Bool(same)
}

// Type is a type that only Omitted has.
func (Omitted) Type() ref.Type { return omittedType }

// Value is nil.
func (Omitted) Value() any { return nil }
