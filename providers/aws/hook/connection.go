package hook

import (
	"encoding/json"
	"strconv"
	"strings"
)

// fields returns a Connection with the values of properties: pairs of a key and the path of a property, with
// dots. A property without a value is left out. No property with a password is among them: what a user has
// given by a Secret stays in that Secret.
func fields(pairs ...string) func(Target) map[string][]byte {
	return func(t Target) map[string][]byte { return pick(t.Properties, pairs...) }
}

func pick(properties map[string]any, pairs ...string) map[string][]byte {
	out := map[string][]byte{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if text := scalar(at(properties, pairs[i+1])); text != "" {
			out[pairs[i]] = []byte(text)
		}
	}
	return out
}

// The path has dots. The value is nil if there is none.
func at(properties map[string]any, path string) any {
	var value any = properties
	for _, name := range strings.Split(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}

// It is empty if there is none.
func text(properties map[string]any, path string) string {
	value, _ := at(properties, path).(string)
	return value
}

// The scalar is a JSON string, number or boolean.
func scalar(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		return v.String()
	}
	return ""
}
