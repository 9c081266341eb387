package plain

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Omitted is the CEL value of what is to be left out: in JSON it is Absent. Nothing else
// can be done with it.
type Omitted struct{}

var omittedType = types.NewObjectType("omitted")

// ConvertToNative fails.
func (Omitted) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("what is omitted has no value of type %s", t)
}

// ConvertToType fails.
func (Omitted) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("what is omitted has no value of type %s", t.TypeName())
}

// Equal says that what is omitted is all the same.
func (Omitted) Equal(other ref.Val) ref.Val {
	_, same := other.(Omitted)
	return types.Bool(same)
}

// Type is one of its own.
func (Omitted) Type() ref.Type { return omittedType }

// Value is nothing.
func (Omitted) Value() any { return nil }
