package patchandtransform

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

type convert struct {
	ToType string `json:"toType"`
	Format string `json:"format"`
}

func (c *convert) format() string {
	if c.Format == "" {
		return "none"
	}
	return c.Format
}

// apply makes a value of another type. What has the type already stays as it is, whatever
// the format says. Objects and lists cannot be converted, only be made of JSON.
func (c *convert) apply(value any) (any, error) {
	to := c.ToType
	if to == "int" {
		to = "int64"
	}
	var from string
	switch value.(type) {
	case string, bool, int64, float64:
		from = fmt.Sprintf("%T", value)
	default:
		return nil, fmt.Errorf("invalid input type %T", value)
	}
	if from == to {
		return value, nil
	}
	by := conversion{from, to, c.format()}
	if parse, ok := parses[by]; ok {
		return parse(fmt.Sprint(value))
	}
	if cast, ok := casts[by]; ok {
		return cast(value), nil
	}
	return nil, fmt.Errorf("conversion from %s to %s is not supported with format %s", from, c.ToType, c.format())
}

type conversion struct{ from, to, format string }

// parses are the conversions of text, which can fail.
var parses = map[conversion]func(string) (any, error){
	{"string", "int64", "none"}:   func(v string) (any, error) { return strconv.ParseInt(v, 10, 64) },
	{"string", "bool", "none"}:    func(v string) (any, error) { return strconv.ParseBool(v) },
	{"string", "float64", "none"}: func(v string) (any, error) { return strconv.ParseFloat(v, 64) },
	{"string", "float64", "quantity"}: func(v string) (any, error) {
		q, err := resource.ParseQuantity(v)
		return q.AsApproximateFloat64(), err
	},
	{"string", "object", "json"}: func(v string) (any, error) {
		out := map[string]any{}
		err := json.Unmarshal([]byte(v), &out)
		return out, err
	},
	{"string", "array", "json"}: func(v string) (any, error) {
		var out []any
		err := json.Unmarshal([]byte(v), &out)
		return out, err
	},
}

// casts are the conversions of everything else, which always give something.
var casts = map[conversion]func(any) any{
	{"int64", "string", "none"}:   func(v any) any { return strconv.FormatInt(v.(int64), 10) },
	{"int64", "bool", "none"}:     func(v any) any { return v.(int64) == 1 },
	{"int64", "float64", "none"}:  func(v any) any { return float64(v.(int64)) },
	{"bool", "string", "none"}:    func(v any) any { return strconv.FormatBool(v.(bool)) },
	{"bool", "int64", "none"}:     func(v any) any { return one(v.(bool)) },
	{"bool", "float64", "none"}:   func(v any) any { return float64(one(v.(bool))) },
	{"float64", "string", "none"}: func(v any) any { return strconv.FormatFloat(v.(float64), 'f', -1, 64) },
	{"float64", "int64", "none"}:  func(v any) any { return int64(v.(float64)) },
	{"float64", "bool", "none"}:   func(v any) any { return v.(float64) == 1 },
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
