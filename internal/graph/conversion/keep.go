package conversion

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// keepRules decide which values are kept: the paths of the author's keep and drop lists.
type keepRules struct{ keep, drop [][]string }

func parseKeepRules(hub, spoke Version, rules Rules, at object.Path) (keepRules, diag.List) {
	var k keepRules
	var problems diag.List
	read := func(list string, paths []string) [][]string {
		var out [][]string
		for i, path := range paths {
			names := strings.Split(path, ".")
			if d := unknownField(names, hub.Spec, spoke.Spec); d != nil {
				d.Path = at.Field(list).Index(i)
				problems.Add(*d)
				continue
			}
			out = append(out, names[1:])
		}
		return out
	}
	k.keep, k.drop = read("keep", rules.Keep), read("drop", rules.Drop)
	return k, problems
}

// unknownField is the diagnostic of a path to a field that neither version has.
func unknownField(names []string, schemas ...*props) *diag.Diagnostic {
	path := strings.Join(names, ".")
	if names[0] != string(specPath) || len(names) < 2 {
		return &diag.Diagnostic{Problem: fmt.Sprintf("%q is not a path to a field of the spec", path), Expected: "such as spec.adminPassword"}
	}
	var known []string
	for _, s := range schemas {
		for i, name := range names[1:] {
			if s == nil {
				break
			}
			for kindOf(s) == list && itemsOf(s) != nil {
				s = itemsOf(s)
			}
			below := field(s, name)
			if below == nil {
				for other := range maps.Keys(s.Properties) {
					known = append(known, strings.Join(append(slices.Clone(names[:i+1]), other), "."))
				}
			} else if i == len(names)-2 {
				return nil
			}
			s = below
		}
	}
	return &diag.Diagnostic{Problem: fmt.Sprintf("there is no field %q in either version", path), Nearest: diag.Nearest(path, known)}
}

// keepable returns the part of a value that may be kept; false if no part may. Values that
// may be secret are kept only if the author lists them in keep.
func (k keepRules) keepable(names []string, value any) (any, bool) {
	if coveredBy(k.drop, names) {
		return nil, false
	}
	if coveredBy(k.keep, names) && !k.dropsBelow(names) {
		return value, true
	}
	if len(names) > 0 && mayBeSecret(names[len(names)-1]) && !isNumberOrBool(value) {
		return nil, false
	}
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, v := range value {
			if v, ok := k.keepable(append(slices.Clone(names), name), v); ok {
				out[name] = v
			}
		}
		return out, len(out) > 0 || len(value) == 0
	case []any:
		out := make([]any, 0, len(value))
		for _, item := range value {
			item, ok := k.keepable(names, item)
			if !ok {
				return nil, false // a list is kept as a whole or not at all
			}
			out = append(out, item)
		}
		return out, true
	}
	return value, true
}

func (k keepRules) dropsBelow(names []string) bool {
	return slices.ContainsFunc(k.drop, func(path []string) bool {
		return len(path) > len(names) && slices.Equal(names, path[:len(names)])
	})
}

// fieldNames returns the field names of a path, without its list indices and keys.
func fieldNames(at []any) []string {
	var out []string
	for _, step := range at {
		if name, ok := step.(string); ok {
			out = append(out, name)
		}
	}
	return out
}

func coveredBy(paths [][]string, names []string) bool {
	return slices.ContainsFunc(paths, func(path []string) bool {
		return len(path) <= len(names) && slices.Equal(path, names[:len(path)])
	})
}

// undecidedFields reports fields that may be secret and that the target version lacks, if
// the author neither keeps nor drops them.
func (k keepRules) undecidedFields(w *transform, at object.Path) diag.List {
	var out diag.List
	k.findUndecided(w, orObject(w.source.Spec), orObject(w.target.Spec), w.assigned, nil, at, &out)
	return out
}

func (k keepRules) findUndecided(w *transform, from, to *props, assigned fieldSet, names []string, at object.Path, out *diag.List) {
	for _, name := range slices.Sorted(maps.Keys(from.Properties)) {
		was, is := field(from, name), field(to, name)
		path, here := append(slices.Clone(names), name), at.Field(name)
		if w.reads(path) || coveredBy(k.keep, path) || coveredBy(k.drop, path) {
			continue
		}
		below := assigned[name]
		if !isAssignable(was, is) || assigned.hasWhole(name) {
			is, below = nil, nil
			if why := secretReason(name, was); why != "" {
				out.Add(diag.Diagnostic{
					Path: here,
					Problem: fmt.Sprintf("%s has no field in %s, and %s; it would be kept in an annotation",
						specPath.Field(path...), w.target.Name, why),
					Expected: fmt.Sprintf("a rule that converts it, or %q in conversion.keep or conversion.drop", "spec."+strings.Join(path, ".")),
				})
				continue
			}
		}
		for kindOf(was) == list && itemsOf(was) != nil {
			was, below, here = itemsOf(was), nil, here+"[]"
			if is != nil {
				is = itemsOf(is)
			}
		}
		if kindOf(was) == structure {
			k.findUndecided(w, was, orObject(is), below, path, here, out)
		}
	}
}

// secretReason says why the value of a field may be secret; empty if it is not. It does not
// look at the fields inside an object.
func secretReason(name string, s *props) string {
	for kindOf(s) == list && itemsOf(s) != nil {
		s = itemsOf(s)
	}
	switch kindOf(s) {
	case "integer", "number", "boolean":
		return "" // such as maxTokens
	}
	switch {
	case mayBeSecret(name):
		return "its name suggests a secret"
	case kindOf(s) == mapping, kindOf(s) == anything:
		return "it allows any content, which may be secret"
	}
	return ""
}

// reads reports whether an expression of the transform reads a field or an object around it.
func (w *transform) reads(names []string) bool {
	if w.template == nil {
		return false
	}
	for _, r := range w.template.Refs() {
		if len(r.Path) == 0 {
			return true
		}
		if r.Path[0].Name != string(specPath) {
			continue
		}
		same := true
		for i, step := range r.Path[1:] {
			if i == len(names) {
				break
			}
			same = same && step.Name == names[i]
		}
		if same {
			return true
		}
	}
	return false
}
