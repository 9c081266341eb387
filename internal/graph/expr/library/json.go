package library

import (
	"encoding/json"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
)

// jsonFunctions declares json.unmarshal(string) → dyn, which returns numbers as doubles, and json.marshal(dyn) →
// string, which sorts keys. The latter also replaces the implementation of CEL's json.encode: the white space of that
// depends on the program's build, so every release would write different objects.
func jsonFunctions() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Function("json.unmarshal", cel.Overload("json.unmarshal_string",
			[]*cel.Type{cel.StringType}, cel.DynType, cel.UnaryBinding(unmarshal))),
		cel.Function("json.marshal", cel.Overload("json.marshal_dyn",
			[]*cel.Type{cel.DynType}, cel.StringType, cel.UnaryBinding(marshal))),
		cel.Function("json.encode", cel.Overload("json_encode_dyn",
			[]*cel.Type{cel.DynType}, cel.StringType, cel.UnaryBinding(marshal))),
	}
}

func unmarshal(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return noOverload(v)
	}
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return types.WrapErr(err)
	}
	return types.DefaultTypeAdapter.NativeToValue(out)
}

func marshal(v ref.Val) ref.Val {
	// An unsigned integer beyond int64 cannot be in an object, but is a JSON number.
	if large, ok := v.(types.Uint); ok {
		raw, _ := json.Marshal(uint64(large))
		return types.String(raw)
	}
	value, err := plain.FromCEL(v, maxStringBytes)
	if err != nil {
		return types.WrapErr(err)
	}
	if value == plain.Absent {
		value = nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(raw)
}
