package library

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/graph/schema"
)

// simpleSchemaFunctions declares simpleschema.toOpenAPI(dyn) → dyn. It converts an object
// with spec, status and types in SimpleSchema to the openAPIV3Schema of a
// CustomResourceDefinition and ignores its other fields.
func simpleSchemaFunctions() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Function("simpleschema.toOpenAPI", cel.Overload("simpleschema.to_openapi_dyn",
			[]*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(toOpenAPI))),
	}
}

func toOpenAPI(v ref.Val) ref.Val {
	value, err := plain.FromCEL(v, maxStringBytes)
	if err != nil {
		return types.WrapErr(err)
	}
	kind, ok := value.(map[string]any)
	if !ok {
		return types.WrapErr(errors.New("simpleschema.toOpenAPI takes an object with spec, status and types"))
	}
	s, problems := schema.FromSimpleSchema(kind)
	if len(problems) > 0 {
		return types.WrapErr(fmt.Errorf("this is not a SimpleSchema: %w", problems.Err()))
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return types.WrapErr(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil { // whole numbers stay whole
		return types.WrapErr(err)
	}
	return types.DefaultTypeAdapter.NativeToValue(out)
}
