package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/reference"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Target is another resource that a property names.
type Target struct {
	// Type is the type of the other resource.
	Type string
	// Attribute is the property of the other resource with the value, such as Arn; empty for its identifier.
	Attribute resourcetype.Path
	Value     string
}

// Identifiers returns what the identifier of the target may be, most likely first. A caller reads each and
// compares it with Is.
func (t Target) Identifiers() []string {
	out := []string{t.Value}
	if len(t.Attribute) > 0 {
		for _, separator := range []string{"/", ":"} {
			if i := strings.LastIndex(t.Value, separator); i >= 0 && i+1 < len(t.Value) && !slices.Contains(out, t.Value[i+1:]) {
				out = append(out, t.Value[i+1:])
			}
		}
	}
	return out
}

// Is reports whether a resource is the target.
func (t Target) Is(r Resource) bool {
	if r.Type.Name != t.Type {
		return false
	}
	if len(t.Attribute) == 0 {
		return r.Identifier == t.Value
	}
	var value any = r.Properties
	for _, name := range t.Attribute {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value == t.Value
}

// String names the target in messages.
func (t Target) String() string { return t.Type + " " + t.Value }

// Targets returns the resources that the properties of a resource name, sorted by property, each once.
func Targets(r Resource) []Target {
	forProvider, _ := model.Importable(r.Type, r.Properties)
	var out []Target
	for _, ref := range reference.Of(r.Type) {
		each(forProvider, ref.Path, func(object map[string]any, name string) {
			for _, value := range values(object[name], ref.List) {
				t := Target{Type: ref.To, Attribute: ref.Attribute, Value: value}
				if !slices.ContainsFunc(out, func(o Target) bool { return o.Type == t.Type && o.Value == t.Value }) && !t.Is(r) {
					out = append(out, t)
				}
			}
		})
	}
	return out
}

// f is called for each object that may have the last name of the path.
func each(value any, path resourcetype.Path, f func(object map[string]any, name string)) {
	switch v := value.(type) {
	case map[string]any:
		switch {
		case len(path) == 1:
			f(v, path[0])
		case path[0] == resourcetype.Any:
			for _, key := range sortedKeys(v) {
				each(v[key], path[1:], f)
			}
		default:
			each(v[path[0]], path[1:], f)
		}
	case []any:
		if len(path) > 1 && path[0] == resourcetype.Any {
			for _, item := range v {
				each(item, path[1:], f)
			}
		}
	}
}

// There are none if something in it is not a string.
func values(value any, isList bool) []string {
	if !isList {
		if s, ok := value.(string); ok && s != "" {
			return []string{s}
		}
		return nil
	}
	items, _ := value.([]any)
	var out []string
	for _, item := range items {
		s, ok := item.(string)
		if !ok || s == "" {
			return nil
		}
		out = append(out, s)
	}
	return out
}

type links struct {
	resources []Resource
	// to maps a resource to the resources that each one refers to.
	to map[int][]int
}

func newLinks(resources []Resource) *links { return &links{resources: resources, to: map[int][]int{}} }

// They name another resource, and become references to its object.
func (l *links) replace(i int, forProvider map[string]any, names []string) {
	for _, ref := range reference.Of(l.resources[i].Type) {
		each(forProvider, ref.Path, func(object map[string]any, name string) {
			var refs []any
			var found []int
			for _, value := range values(object[name], ref.List) {
				j := l.find(Target{Type: ref.To, Attribute: ref.Attribute, Value: value})
				if j < 0 || l.reaches(j, i) {
					return // a list of both plain values and references is not possible
				}
				refs, found = append(refs, map[string]any{"name": names[j]}), append(found, j)
			}
			if len(refs) == 0 {
				return
			}
			l.to[i] = append(l.to[i], found...)
			delete(object, name)
			if ref.List {
				object[name+"Refs"] = refs
				return
			}
			object[name+"Ref"] = refs[0]
		})
	}
}

func (l *links) find(t Target) int {
	return slices.IndexFunc(l.resources, t.Is)
}

// References count directly or through other resources. Each reaches itself.
func (l *links) reaches(from, to int) bool {
	visited := map[int]bool{}
	var visit func(i int) bool
	visit = func(i int) bool {
		if i == to {
			return true
		}
		if visited[i] {
			return false
		}
		visited[i] = true
		return slices.ContainsFunc(l.to[i], visit)
	}
	return visit(from)
}

// Each comes after the resources that it refers to.
func (l *links) order() (out []int) {
	visited := map[int]bool{}
	var visit func(i int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true
		for _, j := range l.to[i] {
			visit(j)
		}
		out = append(out, i)
	}
	for i := range l.resources {
		visit(i)
	}
	return out
}

// Unreadable says why a target cannot be read by its identifier alone; empty if it can.
func Unreadable(target Target, t *resourcetype.Type) string {
	if n := len(t.PrimaryIdentifier); n > 1 {
		return fmt.Sprintf("an identifier of %s has %d parts, and %s is one of them", target.Type, n, target.Value)
	}
	return ""
}
