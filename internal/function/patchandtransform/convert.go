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
	if how, ok := conversions[conversion{from, to, c.format()}]; ok {
		return how(value)
	}
	return nil, fmt.Errorf("conversion from %s to %s is not supported with format %s", from, c.ToType, c.format())
}

type conversion struct{ from, to, format string }

var conversions = map[conversion]func(any) (any, error){
	{"string", "int64", "none"}: func(v any) (any, error) { return strconv.ParseInt(v.(string), 10, 64) },
	{"string", "bool", "none"}:  func(v any) (any, error) { return strconv.ParseBool(v.(string)) },
	{"string", "float64", "none"}: func(v any) (any, error) {
		return strconv.ParseFloat(v.(string), 64)
	},
	{"string", "float64", "quantity"}: func(v any) (any, error) {
		q, err := resource.ParseQuantity(v.(string))
		return q.AsApproximateFloat64(), err
	},
	{"string", "object", "json"}: func(v any) (any, error) {
		out := map[string]any{}
		err := json.Unmarshal([]byte(v.(string)), &out)
		return out, err
	},
	{"string", "array", "json"}: func(v any) (any, error) {
		var out []any
		err := json.Unmarshal([]byte(v.(string)), &out)
		return out, err
	},
	{"int64", "string", "none"}:  func(v any) (any, error) { return strconv.FormatInt(v.(int64), 10), nil },
	{"int64", "bool", "none"}:    func(v any) (any, error) { return v.(int64) == 1, nil },
	{"int64", "float64", "none"}: func(v any) (any, error) { return float64(v.(int64)), nil },
	{"bool", "string", "none"}:   func(v any) (any, error) { return strconv.FormatBool(v.(bool)), nil },
	{"bool", "int64", "none"}:    func(v any) (any, error) { return one(v.(bool)), nil },
	{"bool", "float64", "none"}:  func(v any) (any, error) { return float64(one(v.(bool))), nil },
	{"float64", "string", "none"}: func(v any) (any, error) {
		return strconv.FormatFloat(v.(float64), 'f', -1, 64), nil
	},
	{"float64", "int64", "none"}: func(v any) (any, error) { return int64(v.(float64)), nil },
	{"float64", "bool", "none"}:  func(v any) (any, error) { return v.(float64) == 1, nil },
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
