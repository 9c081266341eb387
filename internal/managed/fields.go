package managed

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// field is a field of spec.forProvider, which may be absent, in an object that exists.
type field struct {
	// path leads from spec.forProvider to the field: names of fields, and indexes of lists.
	path []any
	// parent is the object that has the field. The fields that name and select what the field
	// refers to are beside it.
	parent map[string]any
}

func (f field) name() string {
	name, _ := f.path[len(f.path)-1].(string)
	return name
}

func (f field) value() any { return f.parent[f.name()] }

func (f field) inList() bool {
	return slices.ContainsFunc(f.path, func(step any) bool { _, isIndex := step.(int); return isIndex })
}

// String returns the path as text: A.B[2].C.
func (f field) String() string {
	var out strings.Builder
	for i, step := range f.path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&out, "[%d]", step)
		case string:
			if i > 0 {
				out.WriteByte('.')
			}
			out.WriteString(step)
		}
	}
	return out.String()
}

// The path is such as A.B[*].C. There is one field for each item of the lists, and none if one of the objects does not
// exist.
func findFields(path string, forProvider map[string]any) []field {
	steps := strings.Split(path, ".")
	parents := []field{{parent: forProvider}}
	for _, step := range steps[:len(steps)-1] {
		var next []field
		name, isList := strings.CutSuffix(step, "[*]")
		for _, at := range parents {
			within := append(slices.Clip(at.path), name)
			switch value := at.parent[name].(type) {
			case map[string]any:
				if !isList {
					next = append(next, field{within, value})
				}
			case []any:
				for i, item := range value {
					if o, isObject := item.(map[string]any); isObject && isList {
						next = append(next, field{append(slices.Clip(within), i), o})
					}
				}
			}
		}
		parents = next
	}
	for i, at := range parents {
		parents[i].path = append(slices.Clip(at.path), steps[len(steps)-1])
	}
	return parents
}

type fieldValue struct {
	path  []any
	value any
}

func (s *reconcileState) withListValues() *unstructured.Unstructured {
	if len(s.listValues) == 0 {
		return s.object
	}
	o := s.object.DeepCopy()
	forProvider, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "forProvider")
	for _, v := range s.listValues {
		setField(forProvider, v.path, v.value)
	}
	return o
}

// It creates objects, but no items of lists.
func setField(in any, path []any, value any) {
	switch at := in.(type) {
	case map[string]any:
		name, _ := path[0].(string)
		if len(path) == 1 {
			at[name] = value
			return
		}
		if at[name] == nil {
			at[name] = map[string]any{}
		}
		setField(at[name], path[1:], value)
	case []any:
		if i, isIndex := path[0].(int); isIndex && i < len(at) {
			setField(at[i], path[1:], value)
		}
	}
}
