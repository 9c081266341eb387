package server

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// ParseConfiguration reads the text of a configuration file over the given defaults. The problems are all fields that are unknown
// or of another type. The caller validates the result, once flags have replaced fields. The error is that the text is not YAML.
func ParseConfiguration(text []byte, defaults ControllerConfiguration) (c ControllerConfiguration, problems field.ErrorList, err error) {
	var fields map[string]any
	if err := yaml.UnmarshalStrict(text, &fields); err != nil {
		return defaults, nil, err
	}
	c = defaults
	c.TypeMeta = metav1.TypeMeta{} // the file says what it is
	problems = decode(nil, fields, reflect.ValueOf(&c).Elem())
	return c, problems, nil
}

// decode sets a value from decoded YAML. What is left out stays as it is. Unlike a decoder of JSON it does not stop at the first problem.
func decode(path *field.Path, from any, to reflect.Value) (problems field.ErrorList) {
	fields, isMap := from.(map[string]any)
	if _, isLeaf := to.Addr().Interface().(json.Unmarshaler); !isLeaf && to.Kind() == reflect.Struct && isMap {
		known := map[string]reflect.Value{}
		fieldsOf(to, known)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if value, exists := known[name]; exists {
				problems = append(problems, decode(path.Child(name), fields[name], value)...)
			} else {
				problems = append(problems, field.Forbidden(path.Child(name), "unknown field"))
			}
		}
		return problems
	}
	text, err := json.Marshal(from)
	if err == nil {
		fresh := reflect.New(to.Type()) // not over a list of the defaults
		if err = json.Unmarshal(text, fresh.Interface()); err == nil && from != nil {
			to.Set(fresh.Elem())
		}
	}
	if err != nil {
		problems = append(problems, field.TypeInvalid(path, from, "must be "+described(to.Type())))
	}
	return problems
}

// fieldsOf collects the fields of a struct by their names in JSON, those of inlined structs with them.
func fieldsOf(of reflect.Value, into map[string]reflect.Value) {
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
		if name == "" {
			fieldsOf(of.Field(i), into)
		} else {
			into[name] = of.Field(i)
		}
	}
}

// described says what values a type has.
func described(t reflect.Type) string {
	if t == reflect.TypeFor[metav1.Duration]() {
		return "a duration such as 15s"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "an integer"
	case reflect.Pointer:
		return "a number"
	case reflect.Slice:
		return "a list of strings"
	case reflect.Struct:
		return "a map"
	default:
		return "a string"
	}
}
