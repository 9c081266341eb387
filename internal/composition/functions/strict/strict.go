// Package strict decodes the input of a function into Go values and reports unknown fields
// and values of the wrong type.
//
// Pure: it decides from values alone.
package strict

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// MaxItems is how many items a list of an input can contain.
const MaxItems = 4096

// Decode decodes an unstructured object into the struct that into points to, by json tags,
// and adds each unknown field and each value of the wrong type to the problems. A null is
// treated as a missing value. Fields of type any and map[string]any share the value.
func Decode(from map[string]any, into any, at object.Path, problems *diag.List) {
	decoder{problems}.decode(from, reflect.ValueOf(into).Elem(), at)
}

type decoder struct{ problems *diag.List }

func (d decoder) decode(from any, into reflect.Value, at object.Path) {
	if from == nil {
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.decode(from, into.Elem(), at)
	case reflect.Struct:
		d.fields(from, into, at)
	case reflect.Slice:
		d.items(from, into, at)
	case reflect.Map:
		d.entries(from, into, at)
	case reflect.Interface:
		into.Set(reflect.ValueOf(from))
	default:
		value := reflect.ValueOf(from)
		if value.Kind() != into.Kind() {
			d.problems.Addf(at, "must be %s, not %s", kindName(into.Kind()), typeName(from))
			return
		}
		into.Set(value.Convert(into.Type()))
	}
}

func (d decoder) fields(from any, into reflect.Value, at object.Path) {
	given, ok := from.(map[string]any)
	if !ok {
		d.problems.Addf(at, "must be an object, not %s", typeName(from))
		return
	}
	known := map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(into.Type()) {
		if !f.Anonymous {
			known[strings.Split(f.Tag.Get("json"), ",")[0]] = into.FieldByIndex(f.Index)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, ok := known[name]
		if !ok {
			d.problems.Add(diag.Diagnostic{
				Path: at.Field(name), Problem: "no such field",
				Nearest: diag.Nearest(name, slices.Collect(maps.Keys(known))),
			})
			continue
		}
		d.decode(given[name], field, at.Field(name))
	}
}

func (d decoder) items(from any, into reflect.Value, at object.Path) {
	given, ok := from.([]any)
	switch {
	case !ok:
		d.problems.Addf(at, "must be a list, not %s", typeName(from))
		return
	case len(given) > MaxItems:
		d.problems.Addf(at, "has %d items, over the limit of %d", len(given), MaxItems)
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(given), len(given)))
	for i, item := range given {
		d.decode(item, into.Index(i), at.Index(i))
	}
}

func (d decoder) entries(from any, into reflect.Value, at object.Path) {
	given, ok := from.(map[string]any)
	if !ok {
		d.problems.Addf(at, "must be an object, not %s", typeName(from))
		return
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(given)))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := reflect.New(into.Type().Elem()).Elem()
		d.decode(given[key], value, at.Field(key))
		into.SetMapIndex(reflect.ValueOf(key), value)
	}
}

func typeName(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	default:
		return fmt.Sprintf("a %T", v)
	}
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	default:
		return "an integer"
	}
}
