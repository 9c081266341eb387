package expr

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// checkLiteral compares a scalar without expressions with its shape. Null is always
// allowed: it leaves a field to its default.
func checkLiteral(v any, s *shape, at object.Path) diag.List {
	if v == nil || s == nil {
		return nil
	}
	if !literalFits(v, s.kindOf()) {
		return diag.List{{Path: at, Problem: fmt.Sprintf("%s is %s", literalText(v), literalName(v)), Expected: describeShape(s)}}
	}
	if text, ok := v.(string); ok && s.kindOf() == ofBytes && !isBase64(text) {
		return diag.List{{Path: at, Problem: notBase64, Expected: base64Text}}
	}
	return checkEnum(v, s, at)
}

func literalFits(v any, k kind) bool {
	switch v := v.(type) {
	case string:
		return slices.Contains([]kind{ofString, ofBytes, ofDuration, ofTimestamp, ofIntOrString, ofQuantity}, k)
	case bool:
		return k == ofBoolean
	case float64:
		whole := v == math.Trunc(v)
		return k == ofNumber || k == ofQuantity || whole && (k == ofInteger || k == ofIntOrString)
	case int, int32, int64:
		return slices.Contains([]kind{ofInteger, ofNumber, ofIntOrString, ofQuantity}, k)
	}
	return false
}

func checkEnum(v any, s *shape, at object.Path) diag.List {
	text, ok := v.(string)
	enum := s.schemaTraits().enum
	if !ok || len(enum) == 0 || slices.Contains(enum, v) {
		return nil
	}
	var allowed []string
	for _, e := range enum {
		if e, ok := e.(string); ok {
			allowed = append(allowed, e)
		}
	}
	return diag.List{{
		Path: at, Problem: fmt.Sprintf("%q is not one of the allowed values", text),
		Expected: strings.Join(allowed, ", "), Nearest: diag.Nearest(text, allowed),
	}}
}

func literalName(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	case int, int32, int64:
		return "an integer"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	default:
		return fmt.Sprintf("a %T", v)
	}
}

// literalText returns "the value" for a literal that is too long for a message.
func literalText(v any) string {
	switch v.(type) {
	case map[string]any:
		return "the value"
	case []any:
		return "the value"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "the value"
	}
	if len(raw) > 40 {
		return "the value"
	}
	return string(raw)
}
