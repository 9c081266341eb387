package library

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/espalier-dev/espalier/internal/diag"
)

// listFunctions declares lists.setAtIndex, insertAtIndex and removeAtIndex. Each
// returns a new list. An index outside the list is an error, except that insertAtIndex may
// append.
func listFunctions() []cel.EnvOption {
	item := cel.TypeParamType("T")
	list := cel.ListType(item)
	return []cel.EnvOption{
		cel.Function("lists.setAtIndex", cel.Overload("lists.setAtIndex_list_int_T",
			[]*cel.Type{list, cel.IntType, item}, list, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				return splice(args[0], args[1], 1, args[2])
			}))),
		cel.Function("lists.insertAtIndex", cel.Overload("lists.insertAtIndex_list_int_T",
			[]*cel.Type{list, cel.IntType, item}, list, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				return splice(args[0], args[1], 0, args[2])
			}))),
		cel.Function("lists.removeAtIndex", cel.Overload("lists.removeAtIndex_list_int",
			[]*cel.Type{list, cel.IntType}, list, cel.BinaryBinding(func(list, index ref.Val) ref.Val {
				return splice(list, index, 1)
			}))),
	}
}

// splice replaces the given number of items at the index by others.
func splice(list, index ref.Val, remove int, insert ...ref.Val) ref.Val {
	from, ok := list.(traits.Lister)
	if !ok {
		return noOverload(list)
	}
	at, ok := index.(types.Int)
	if !ok {
		return noOverload(index)
	}
	size := int(from.Size().(types.Int))
	if at < 0 || int(at) > size-remove {
		return types.WrapErr(fmt.Errorf("index %d is outside the list of %s", at, diag.Counted(size, "item", "items")))
	}
	out := make([]ref.Val, 0, size+len(insert)-remove)
	for i := range int(at) {
		out = append(out, from.Get(types.Int(i)))
	}
	out = append(out, insert...)
	for i := int(at) + remove; i < size; i++ {
		out = append(out, from.Get(types.Int(i)))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, out)
}
