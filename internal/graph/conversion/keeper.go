package conversion

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// keeper decides what is kept.
type keeper struct{ named, dropped [][]string }

func newKeeper(hub, spoke Version, rules Rules, at object.Path) (keeper, diag.List) {
	var k keeper
	var problems diag.List
	read := func(list string, paths []string) [][]string {
		var out [][]string
		for i, path := range paths {
			names := strings.Split(path, ".")
			if d := unknown(names, hub.Spec, spoke.Spec); d != nil {
				d.Path = at.Field(list).Index(i)
				problems.Add(*d)
				continue
			}
			out = append(out, names[1:])
		}
		return out
	}
	k.named, k.dropped = read("keep", rules.Keep), read("drop", rules.Drop)
	return k, problems
}

// unknown is the problem of a path that leads to no field of either version.
func unknown(names []string, schemas ...*props) *diag.Diagnostic {
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

// part returns what of a value at a place may be kept, if any of it may: what may be
// secret isn't, unless it is named.
func (k keeper) part(names []string, value any) (any, bool) {
	if covered(k.dropped, names) {
		return nil, false
	}
	if covered(k.named, names) && !k.dropsBelow(names) {
		return value, true
	}
	if len(names) > 0 && maySecret(names[len(names)-1]) && !isFigure(value) {
		return nil, false
	}
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, v := range value {
			if v, ok := k.part(append(slices.Clone(names), name), v); ok {
				out[name] = v
			}
		}
		return out, len(out) > 0 || len(value) == 0
	case []any:
		out := make([]any, 0, len(value))
		for _, item := range value {
			item, ok := k.part(names, item)
			if !ok {
				return nil, false // a list is whole or isn't
			}
			out = append(out, item)
		}
		return out, true
	}
	return value, true
}

// dropsBelow says whether anything inside of a place isn't kept.
func (k keeper) dropsBelow(names []string) bool {
	return slices.ContainsFunc(k.dropped, func(path []string) bool {
		return len(path) > len(names) && slices.Equal(names, path[:len(names)])
	})
}

// namesOf are the names of the fields on the way to a place.
func namesOf(at []any) []string {
	var out []string
	for _, step := range at {
		if name, ok := step.(string); ok {
			out = append(out, name)
		}
	}
	return out
}

func covered(paths [][]string, names []string) bool {
	return slices.ContainsFunc(paths, func(path []string) bool {
		return len(path) <= len(names) && slices.Equal(path, names[:len(path)])
	})
}

// undecided lists fields that may be secret and have no room on a way, of which the
// author hasn't said what is to become of them.
func (k keeper) undecided(w *way, at object.Path) diag.List {
	var out diag.List
	k.search(w, orObject(w.source.Spec), orObject(w.target.Spec), w.said, nil, at, &out)
	return out
}

func (k keeper) search(w *way, from, to *props, said mention, names []string, at object.Path, out *diag.List) {
	for _, name := range slices.Sorted(maps.Keys(from.Properties)) {
		was, is := field(from, name), field(to, name)
		path, here := append(slices.Clone(names), name), at.Field(name)
		if w.reads(path) || covered(k.named, path) || covered(k.dropped, path) {
			continue
		}
		below := said[name]
		if !carries(was, is) || said.gives(name) {
			is, below = nil, nil
			if why := suspicion(name, was); why != "" {
				out.Add(diag.Diagnostic{
					Path: here,
					Problem: fmt.Sprintf("%s has no room in %s, and %s; it would be kept in an annotation",
						specPath.Field(path...), w.target.Name, why),
					Expected: fmt.Sprintf("a place for it, or %q in conversion.keep or conversion.drop", "spec."+strings.Join(path, ".")),
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
			k.search(w, was, orObject(is), below, path, here, out)
		}
	}
}

// suspicion says why a field may hold a secret; empty if it is none itself.
func suspicion(name string, s *props) string {
	for kindOf(s) == list && itemsOf(s) != nil {
		s = itemsOf(s)
	}
	switch kindOf(s) {
	case "integer", "number", "boolean":
		return "" // maxTokens is no secret
	}
	switch {
	case maySecret(name):
		return "by its name it may be secret"
	case kindOf(s) == mapping, kindOf(s) == anything:
		return "it holds whatever its users put there, which may be secret"
	}
	return ""
}

// reads says whether an expression of the way reads a field, or an object that it is in.
func (w *way) reads(names []string) bool {
	if w.doc == nil {
		return false
	}
	for _, r := range w.doc.Refs() {
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
