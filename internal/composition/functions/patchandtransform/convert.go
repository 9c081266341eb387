package patchandtransform

import (
	"encoding/json"
	"errors"
	"fmt"
	gomath "math"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

type convert struct {
	ToType string `json:"toType"`
	Format string `json:"format"`
}

const plain = "none"

func (c *convert) format() string {
	if c.Format == "" {
		return plain
	}
	return c.Format
}

// apply converts a value to another type. A value of that type stays unchanged, whatever the format. Objects and
// lists can't be converted; they can be parsed from JSON.
func (c *convert) apply(value any) (any, error) {
	to := c.ToType
	if to == "int" {
		to = "int64"
	}
	var from string
	switch value.(type) {
	case string, bool:
		from = fmt.Sprintf("%T", value)
	case int64, float64:
		if c.format() != plain {
			return c.ofNumber(value)
		}
		from = fmt.Sprintf("%T", value)
	default:
		return nil, fmt.Errorf("invalid input type %T", value)
	}
	if from == to {
		return value, nil
	}
	wanted := conversion{from, to, c.format()}
	if parse, ok := parseConversions[wanted]; ok {
		return parse(fmt.Sprint(value))
	}
	if cast, ok := castConversions[wanted]; ok {
		return cast(value), nil
	}
	if wanted == truncation {
		return truncated(value.(float64))
	}
	return nil, c.unsupported(from)
}

// ofNumber converts a number with a format that is for strings. Only the conversion to
// float64 succeeds, for integers too: authors can't see whether 3 is an int64 or a float64,
// and upstream's numbers are float64.
func (c *convert) ofNumber(value any) (any, error) {
	if c.ToType != "float64" {
		return nil, c.unsupported("number")
	}
	if whole, ok := value.(int64); ok {
		return float64(whole), nil
	}
	return value, nil
}

func (c *convert) unsupported(from string) error {
	return fmt.Errorf("conversion from %s to %s is not supported with format %s", from, c.ToType, c.format())
}

// largeExponent finds an exponent of four digits or more: the integers of such a quantity have as many digits, which
// takes hours or all memory.
var largeExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3}`)

type conversion struct{ from, to, format string }

// parseConversions are the conversions of strings, which can fail.
var parseConversions = map[conversion]func(string) (any, error){
	{"string", "int64", plain}:   func(v string) (any, error) { return strconv.ParseInt(v, 10, 64) },
	{"string", "bool", plain}:    func(v string) (any, error) { return strconv.ParseBool(v) },
	{"string", "float64", plain}: func(v string) (any, error) { return strconv.ParseFloat(v, 64) },
	{"string", "float64", "quantity"}: func(v string) (any, error) {
		if largeExponent.MatchString(v) {
			return nil, errors.New("the exponent of a quantity must be between -999 and 999")
		}
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

var castConversions = map[conversion]func(any) any{
	{"int64", "string", plain}:   func(v any) any { return strconv.FormatInt(v.(int64), 10) },
	{"int64", "bool", plain}:     func(v any) any { return v.(int64) == 1 },
	{"int64", "float64", plain}:  func(v any) any { return float64(v.(int64)) },
	{"bool", "string", plain}:    func(v any) any { return strconv.FormatBool(v.(bool)) },
	{"bool", "int64", plain}:     func(v any) any { return boolToInt(v.(bool)) },
	{"bool", "float64", plain}:   func(v any) any { return float64(boolToInt(v.(bool))) },
	{"float64", "string", plain}: func(v any) any { return strconv.FormatFloat(v.(float64), 'f', -1, 64) },
	{"float64", "bool", plain}:   func(v any) any { return v.(float64) == 1 },
}

// truncation is the conversion of a float64 to an int64, which can fail.
var truncation = conversion{"float64", "int64", plain}

// truncated is a float without its fraction. A float beyond int64 is an error, because Go's conversion of it is
// undefined.
func truncated(f float64) (any, error) {
	if gomath.IsNaN(f) || f < -int64Overflow || f >= int64Overflow {
		return nil, fmt.Errorf("%v is beyond the range of int64", f)
	}
	return int64(gomath.Trunc(f)), nil
}

// int64Overflow is the smallest float above all int64 values.
const int64Overflow = 1 << 63

func boolToInt(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
