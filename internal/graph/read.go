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

// Read decodes a definition's spec. A value that does not fit its field is a problem with the field's path. The
// returned spec lacks such values, so Compile can find all other problems.
func Read(spec map[string]any) (*v1alpha1.DefinitionSpec, diag.List) {
	return read[v1alpha1.DefinitionSpec](spec)
}

// ReadGraph is Read for the spec of a Graph.
func ReadGraph(spec map[string]any) (*v1alpha1.GraphSpec, diag.List) {
	return read[v1alpha1.GraphSpec](spec)
}

func read[T any](spec map[string]any) (*T, diag.List) {
	out := new(T)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, out) == nil {
		return out, nil
	}
	var r reader
	legible, _ := r.readValue(spec, reflect.TypeFor[T](), "spec")
	fields, _ := legible.(map[string]any)
	out = new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, out); err != nil || len(r.problems) == 0 {
		r.problems.Addf("spec", "cannot be decoded: %v", err)
		return new(T), r.problems
	}
	return out, r.problems.Sorted()
}

type reader struct {
	problems diag.List
	// strict makes unknown fields problems.
	strict bool
}

// readValue returns a copy of a value without the parts that cannot be decoded; false if
// no part can.
func (r *reader) readValue(v any, t reflect.Type, at object.Path) (any, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case v == nil:
		return nil, true
	case reflect.PointerTo(t).Implements(unmarshaler):
		return v, r.canDecode(v, t, at)
	}
	switch t.Kind() {
	case reflect.Struct:
		return r.readObject(v, t, at)
	case reflect.Map:
		return r.readMap(v, t.Elem(), at)
	case reflect.Slice:
		return r.readList(v, t.Elem(), at)
	default:
		return v, r.canDecode(v, t, at)
	}
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// readObject fails if a required field cannot be decoded.
func (r *reader) readObject(v any, t reflect.Type, at object.Path) (any, bool) {
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, r.addProblem(v, "an object", at)
	}
	if r.strict {
		r.addUnknown(fields, t, at)
	}
	out, complete := maps.Clone(fields), true
	for _, f := range reflect.VisibleFields(t) { // including the ones of embedded types
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		field, there := fields[name]
		if !there {
			continue
		}
		if out[name], ok = r.readValue(field, f.Type, at.Field(name)); !ok {
			delete(out, name)
			complete = complete && options == "omitempty"
		}
	}
	return out, complete
}

func (r *reader) addUnknown(fields map[string]any, t reflect.Type, at object.Path) {
	var known []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			known = append(known, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			r.problems.Add(diag.Diagnostic{Path: at.Field(name), Problem: "there is no such field", Nearest: diag.Nearest(name, known)})
		}
	}
}

func (r *reader) readMap(v any, t reflect.Type, at object.Path) (any, bool) {
	entries, ok := v.(map[string]any)
	if !ok {
		return nil, r.addProblem(v, "an object", at)
	}
	out := make(map[string]any, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if value, ok := r.readValue(entries[key], t, at.Field(key)); ok {
			out[key] = value
		}
	}
	return out, true
}

// readList reads a list. It fails if an item cannot be decoded: without it the following items would have other
// indices.
func (r *reader) readList(v any, t reflect.Type, at object.Path) (any, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, r.addProblem(v, "a list", at)
	}
	out, complete := make([]any, len(list)), true
	for i, item := range list {
		out[i], ok = r.readValue(item, t, at.Index(i))
		complete = complete && ok
	}
	return out, complete
}

// canDecode adds a problem if the value cannot be decoded.
func (r *reader) canDecode(v any, t reflect.Type, at object.Path) bool {
	if t == reflect.TypeFor[metav1.Duration]() {
		text, isText := v.(string)
		if _, err := time.ParseDuration(text); !isText || err != nil {
			r.problems.Add(diag.Diagnostic{Path: at, Problem: formatValue(v) + " is not a duration", Expected: "such as 90s, 10m or 1h30m"})
			return false
		}
		return true
	}
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, reflect.New(t).Interface())
	}
	return err == nil || r.addProblem(v, expectedType(t), at)
}

// addProblem always returns false.
func (r *reader) addProblem(v any, expected string, at object.Path) bool {
	r.problems.Add(diag.Diagnostic{Path: at, Problem: formatValue(v) + " is not allowed here", Expected: expected})
	return false
}

func expectedType(t reflect.Type) string {
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

// maxFormattedValue is in bytes.
const maxFormattedValue = 40

func formatValue(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "the value"
	}
	return diag.Truncate(string(raw), maxFormattedValue)
}
