// Package reference knows which properties of resource types take their value from another resource. It reads
// that from the schemas, where they say it, and from overlay.yaml for the rest.
//
// Pure: it decides from values alone.
package reference

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Reference is a property that can name a resource of another type.
type Reference struct {
	// Path is the property: a string, or an array of strings if List is set.
	Path resourcetype.Path
	List bool
	// To is the type of the resource that the property names.
	To string
	// Attribute is the property of the other resource that the value is, such as Arn. If it is empty, the
	// value is the resource's identifier, which is its external name.
	Attribute resourcetype.Path
}

//go:embed overlay.yaml
var overlayFile []byte

// target is what a property refers to, such as AWS::EC2::VPC, or AWS::IAM::Role.Arn for an attribute.
type target string

// none in the overlay says that a property is no reference.
const none target = "none"

func (t target) split() (typeName string, attribute resourcetype.Path) {
	typeName, path, hasPath := strings.Cut(string(t), ".")
	if hasPath {
		attribute = strings.Split(path, ".")
	}
	return typeName, attribute
}

type overlay struct {
	// Formats are the targets of strings by their format in the schema.
	Formats map[string]target `json:"formats"`
	// Relationships are the targets by what the schemas say, as TYPE.PROPERTY.
	Relationships map[string]target `json:"relationships"`
	// Names are the targets of properties with a name that means the same in all types.
	Names map[string]target `json:"names"`
	// Properties are the targets of single properties, by type and path.
	Properties map[string]map[string]target `json:"properties"`
}

var load = sync.OnceValue(func() overlay {
	var o overlay
	if err := yaml.UnmarshalStrict(overlayFile, &o); err != nil {
		panic("overlay.yaml of references: " + err.Error())
	}
	return o
})

// maxDepth is how deep properties with references are looked for. Deeper ones are rare, and some types have
// hundred thousands of paths.
const maxDepth = 9

// maxReferences is how many references a type has at most; references of the upper levels come first.
const maxReferences = 100

// Of returns the references of a type, sorted by path.
func Of(t *resourcetype.Type) []Reference {
	w := walk{t: t, overlay: load(), secrets: resourcetype.SecretPaths(t), found: map[string]Reference{}}
	w.useful = w.findUseful()
	w.below(&t.Schema, nil, nil)
	for text, to := range w.overlay.Properties[t.Name] {
		path := resourcetype.Path(strings.Split(text, "."))
		delete(w.found, path.String())
		if to != none {
			w.add(path, to, t.At(path))
		}
	}
	out := slices.SortedFunc(maps.Values(w.found), func(a, b Reference) int {
		if len(a.Path) != len(b.Path) {
			return len(a.Path) - len(b.Path)
		}
		return strings.Compare(a.Path.String(), b.Path.String())
	})
	out = out[:min(len(out), maxReferences)]
	slices.SortFunc(out, func(a, b Reference) int { return strings.Compare(a.Path.String(), b.Path.String()) })
	return out
}

type walk struct {
	t       *resourcetype.Type
	overlay overlay
	secrets []resourcetype.Path
	// useful are the schemas below which a property may be a reference.
	useful map[*resourcetype.Schema]bool
	found  map[string]Reference
}

// It leaves out what is inside of itself.
func (w *walk) below(s *resourcetype.Schema, path resourcetype.Path, above []*resourcetype.Schema) {
	if s = w.t.Resolve(s); s == nil || !w.useful[s] || len(path) >= maxDepth || slices.Contains(above, s) {
		return
	}
	above = append(slices.Clip(above), s)
	for name, child := range children(s) {
		next := append(slices.Clip(path), name)
		if resourcetype.Has(w.t.ReadOnlyProperties, next) {
			continue
		}
		if to := w.targetOf(child, name); to != "" {
			w.add(next, to, []*resourcetype.Schema{w.t.Resolve(child)})
		}
		w.below(child, next, above)
	}
	for _, alternative := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
		w.below(alternative, path, above)
	}
}

func (w *walk) add(path resourcetype.Path, to target, at []*resourcetype.Schema) {
	r := Reference{Path: path}
	r.To, r.Attribute = to.split()
	if last := len(path) - 1; path[last] == resourcetype.Any {
		r.Path, r.List = path[:last], true
	} else if len(at) > 0 && w.t.HasType(at[0], "array") {
		r.List = true
	}
	if len(r.Path) == 0 || r.Path[len(r.Path)-1] == resourcetype.Any || len(at) == 0 {
		return
	}
	if r.List && !slices.ContainsFunc(w.t.At(r.Path), func(s *resourcetype.Schema) bool {
		return s.Items != nil && w.isString(s.Items)
	}) || !r.List && !w.isString(at[0]) {
		return
	}
	if resourcetype.Has(w.secrets, r.Path) && resourcetype.IsSecret(r.Path) ||
		resourcetype.Has(w.t.ReadOnlyProperties, r.Path) || r.List && r.Attribute == nil && r.To == "" {
		return
	}
	w.found[r.Path.String()] = r
}

func (w *walk) isString(s *resourcetype.Schema) bool {
	s = w.t.Resolve(s)
	if s == nil || len(s.Enum) > 0 {
		return false
	}
	if len(s.Types) > 0 {
		return slices.Equal(s.Types, resourcetype.Types{"string"})
	}
	return len(s.Properties) == 0 && len(slices.Concat(s.AnyOf, s.OneOf, s.AllOf)) > 0 && s.Items == nil
}

// The target may be empty.
func (w *walk) targetOf(s *resourcetype.Schema, name string) target {
	for _, s := range []*resourcetype.Schema{s, w.t.Resolve(s)} {
		if s == nil {
			continue
		}
		var found []target
		for _, each := range append([]*resourcetype.Schema{s}, slices.Concat(s.AnyOf, s.OneOf, s.AllOf)...) {
			if to := w.overlay.Formats[each.Format]; to != "" {
				found = append(found, to)
			}
			if r := each.RelationshipRef; r != nil {
				if to := w.overlay.Relationships[r.TypeName+"."+r.PropertyPath.String()]; to != "" && to != none {
					found = append(found, to)
				}
			}
		}
		if len(found) > 0 {
			return slices.Min(found)
		}
	}
	return w.overlay.Names[name]
}

func (w *walk) findUseful() map[*resourcetype.Schema]bool {
	out := map[*resourcetype.Schema]bool{}
	for changed := true; changed; {
		changed = false
		visited := map[*resourcetype.Schema]bool{}
		var visit func(*resourcetype.Schema) bool
		visit = func(s *resourcetype.Schema) bool {
			if s = w.t.Resolve(s); s == nil || out[s] || visited[s] {
				return out[s]
			}
			visited[s] = true
			found := false
			for name, child := range children(s) {
				found = w.targetOf(child, name) != "" || found
				found = visit(child) || found
			}
			for _, alternative := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
				found = visit(alternative) || found
			}
			if found {
				out[s], changed = true, true
			}
			return found
		}
		visit(&w.t.Schema)
	}
	return out
}

// children yields the properties of a schema, and its items or values under Any.
func children(s *resourcetype.Schema) func(func(string, *resourcetype.Schema) bool) {
	return func(yield func(string, *resourcetype.Schema) bool) {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if !yield(name, s.Properties[name]) {
				return
			}
		}
		for _, pattern := range slices.Sorted(maps.Keys(s.PatternProperties)) {
			if !yield(resourcetype.Any, s.PatternProperties[pattern]) {
				return
			}
		}
		if s.Items != nil && !yield(resourcetype.Any, s.Items) {
			return
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			yield(resourcetype.Any, s.AdditionalProperties.Schema)
		}
	}
}
