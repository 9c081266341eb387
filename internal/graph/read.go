package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Read decodes a definition's spec. A value that its field can't hold is a problem with the
// field's path; the spec is then what is left without such values, so that Compile finds
// everything else that is wrong.
func Read(spec map[string]any) (*v1alpha1.DefinitionSpec, diag.List) {
	out := &v1alpha1.DefinitionSpec{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, out) == nil {
		return out, nil
	}
	var r reader
	legible, _ := r.value(spec, reflect.TypeFor[v1alpha1.DefinitionSpec](), "spec")
	fields, _ := legible.(map[string]any)
	out = &v1alpha1.DefinitionSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, out); err != nil || len(r.problems) == 0 {
		r.problems.Addf("spec", "can't be read: %v", err)
		return &v1alpha1.DefinitionSpec{}, r.problems
	}
	return out, r.problems.Sorted()
}

// reader compares a document with the type that it is to be decoded into.
type reader struct{ problems diag.List }

// value returns a copy of a value without what can't be read of it; false if that is all.
func (r *reader) value(v any, t reflect.Type, at object.Path) (any, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case v == nil:
		return nil, true
	case reflect.PointerTo(t).Implements(unmarshaler):
		return v, r.decodes(v, t, at)
	}
	switch t.Kind() {
	case reflect.Struct:
		return r.object(v, t, at)
	case reflect.Map:
		return r.entries(v, t.Elem(), at)
	case reflect.Slice:
		return r.items(v, t.Elem(), at)
	default:
		return v, r.decodes(v, t, at)
	}
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// object reads the fields of an object. One that is required takes the object with it.
func (r *reader) object(v any, t reflect.Type, at object.Path) (any, bool) {
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, r.wrong(v, "an object", at)
	}
	out, whole := maps.Clone(fields), true
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		field, there := fields[name]
		if !there {
			continue
		}
		if out[name], ok = r.value(field, t.Field(i).Type, at.Field(name)); !ok {
			delete(out, name)
			whole = whole && options == "omitempty"
		}
	}
	return out, whole
}

func (r *reader) entries(v any, t reflect.Type, at object.Path) (any, bool) {
	entries, ok := v.(map[string]any)
	if !ok {
		return nil, r.wrong(v, "an object", at)
	}
	out := make(map[string]any, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if value, ok := r.value(entries[key], t, at.Field(key)); ok {
			out[key] = value
		}
	}
	return out, true
}

// items reads a list. Without one of its items the others would have other places, so that
// none is read then.
func (r *reader) items(v any, t reflect.Type, at object.Path) (any, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, r.wrong(v, "a list", at)
	}
	out, whole := make([]any, len(list)), true
	for i, item := range list {
		out[i], ok = r.value(item, t, at.Index(i))
		whole = whole && ok
	}
	return out, whole
}

// decodes says whether a value can be decoded into a type as a whole.
func (r *reader) decodes(v any, t reflect.Type, at object.Path) bool {
	if t == reflect.TypeFor[metav1.Duration]() {
		text, isText := v.(string)
		if _, err := time.ParseDuration(text); !isText || err != nil {
			r.problems.Add(diag.Diagnostic{Path: at, Problem: shown(v) + " is no duration", Expected: "such as 90s, 10m or 1h30m"})
			return false
		}
		return true
	}
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, reflect.New(t).Interface())
	}
	return err == nil || r.wrong(v, expected(t), at)
}

// wrong adds a problem, and is false.
func (r *reader) wrong(v any, expected string, at object.Path) bool {
	r.problems.Add(diag.Diagnostic{Path: at, Problem: shown(v) + " can't be read here", Expected: expected})
	return false
}

// expected names what a field takes.
func expected(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[v1alpha1.WaitField]():
		return "a path such as status.vpcID, or an object with path and pattern or rule"
	case reflect.TypeFor[intstr.IntOrString]():
		return "an integer or a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of at most %d bits", t.Bits())
	default:
		return ""
	}
}

// longestShown bounds what a message repeats of a value, in bytes.
const longestShown = 40

func shown(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "the value"
	}
	return diag.Cut(string(raw), longestShown)
}
