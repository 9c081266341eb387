package awscloud

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Life is what a test does with a resource of a type that is known to work in the test cloud.
type Life struct {
	Type string
	// Needs are resources that have to be there, by the name that references have.
	Needs map[string]Need
	// Create is the desired state.
	Create map[string]any
	// Update are properties with new values, that AWS changes in place. It is empty for types without such properties.
	Update map[string]any
	// Refused are properties with new values that AWS refuses to change. It is empty for types without
	// such properties.
	Refused map[string]any
	// Drift is a call of a native API that changes what Update has set, or a property of Create. It is empty for types without
	// Update, and where the implementation has no such call.
	Drift NativeCall
	// List is the ResourceModel that lists need.
	List map[string]any
}

// Need is a resource that another one needs.
type Need struct {
	Type   string
	Create map[string]any
}

//go:embed lives.yaml
var livesFile []byte

// Lives returns the table of lives, in the order of the file.
func Lives() []Life {
	var out []Life
	if err := yaml.UnmarshalStrict(livesFile, &out); err != nil {
		panic("lives.yaml: " + err.Error()) // A test reads it.
	}
	return out
}

// reference is how properties refer to a resource of Needs.
var reference = regexp.MustCompile(`\$\{(\w+)(?:\.(\w+))?\}`)

// Order returns the names of the resources in Needs, each after those that it refers to.
func (l Life) Order() []string {
	var out []string
	var visit func(name string)
	visit = func(name string) {
		if slices.Contains(out, name) {
			return
		}
		raw, err := json.Marshal(l.Needs[name].Create)
		if err != nil {
			panic(err) // It was read from YAML.
		}
		for _, m := range reference.FindAllStringSubmatch(string(raw), -1) {
			visit(m[1])
		}
		out = append(out, name)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Needs)) {
		visit(name)
	}
	return out
}

// Resolve returns properties with the values of references in their place. The function returns a
// property of a resource of Needs, or its identifier if the property is empty.
func Resolve(properties map[string]any, resolve func(name, property string) string) map[string]any {
	return resolved(properties, resolve).(map[string]any)
}

func resolved(v any, resolve func(name, property string) string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			out[name] = resolved(field, resolve)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = resolved(item, resolve)
		}
		return out
	case string:
		return reference.ReplaceAllStringFunc(v, func(s string) string {
			m := reference.FindStringSubmatch(s)
			return resolve(m[1], m[2])
		})
	default:
		return v
	}
}

// Patch returns the JSON patch that sets properties.
func Patch(properties map[string]any) string {
	steps := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		steps = append(steps, map[string]any{"op": "add", "path": "/" + strings.NewReplacer("~", "~0", "/",
			"~1").Replace(name), "value": properties[name]})
	}
	raw, err := json.Marshal(steps)
	if err != nil {
		panic(fmt.Sprintf("write the patch: %v", err)) // It consists of JSON values.
	}
	return string(raw)
}
