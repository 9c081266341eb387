package library

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const maxStringBytes = 4 << 20

var errTooLong = errors.New("the string would be longer than 4 MiB")

// sizeLimited replaces the implementations of CEL's replace and join by ones with a size
// limit. Their results can be as long as the product of their arguments, and CEL counts the
// cost of a call only after it: one expression could exhaust the memory.
func sizeLimited() []cel.EnvOption {
	text, count := cel.StringType, cel.IntType
	texts := cel.ListType(text)
	return []cel.EnvOption{
		cel.Function("replace",
			cel.MemberOverload("string_replace_string_string", []*cel.Type{text, text, text}, text,
				cel.FunctionBinding(func(args ...ref.Val) ref.Val { return replace(args[0], args[1], args[2], types.Int(-1)) })),
			cel.MemberOverload("string_replace_string_string_int", []*cel.Type{text, text, text, count}, text,
				cel.FunctionBinding(func(args ...ref.Val) ref.Val { return replace(args[0], args[1], args[2], args[3]) }))),
		cel.Function("join",
			cel.MemberOverload("list_join", []*cel.Type{texts}, text,
				cel.UnaryBinding(func(list ref.Val) ref.Val { return join(list, types.String("")) })),
			cel.MemberOverload("list_join_string", []*cel.Type{texts, text}, text, cel.BinaryBinding(join))),
	}
}

func replace(in, old, by, times ref.Val) ref.Val {
	s, ok := in.(types.String)
	if !ok {
		return noOverload(in)
	}
	from, ok := old.(types.String)
	if !ok {
		return noOverload(old)
	}
	to, ok := by.(types.String)
	if !ok {
		return noOverload(by)
	}
	n, ok := times.(types.Int)
	if !ok {
		return noOverload(times)
	}
	found := utf8.RuneCountInString(string(s)) + 1
	if from != "" {
		found = strings.Count(string(s), string(from))
	}
	if n >= 0 {
		found = min(found, int(n))
	}
	if len(s)+found*len(to) > maxStringBytes {
		return types.WrapErr(errTooLong)
	}
	return types.String(strings.Replace(string(s), string(from), string(to), found))
}

func join(list, separator ref.Val) ref.Val {
	items, ok := list.(traits.Lister)
	if !ok {
		return noOverload(list)
	}
	between, ok := separator.(types.String)
	if !ok {
		return noOverload(separator)
	}
	var out strings.Builder
	for it := items.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		s, ok := item.(types.String)
		if !ok {
			return noOverload(item)
		}
		if out.Len()+len(s)+len(between) > maxStringBytes {
			return types.WrapErr(errTooLong)
		}
		out.WriteString(string(s))
		out.WriteString(string(between))
	}
	return types.String(strings.TrimSuffix(out.String(), string(between)))
}
