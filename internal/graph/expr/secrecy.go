package expr

import (
	"maps"
	"slices"
)

// Secrecy says which parts of a value come from the data of Secrets; nil if none does. It is
// immutable and safe for concurrent use.
type Secrecy struct {
	// source is the path that the data comes from. If several do, it is the first in order.
	source string
	// whole says that the value itself comes from there. Otherwise only some of its parts do,
	// and its size and its keys say nothing about them.
	whole bool
	// keys says that the value may have keys that come from there.
	keys bool
	// fields are the parts by name, and each is the part of all items or entries. keyed says that these are entries
	// of a map.
	fields map[string]*Secrecy
	each   *Secrecy
	keyed  bool
	parts  int
}

// maxSecretParts bounds the parts that are told apart: values composed of other values can have
// many times as many parts as their definition.
const maxSecretParts = 1000

// Secret is the secrecy of a value that comes from the data of a Secret as a whole.
func Secret(source string) *Secrecy { return &Secrecy{source: source, whole: true, parts: 1} }

// SecretFields is the secrecy of an object with the given fields.
func SecretFields(fields map[string]*Secrecy) *Secrecy {
	return newSecrecy(Secrecy{fields: fields})
}

// SecretItems is the secrecy of a list with the given items.
func SecretItems(each *Secrecy) *Secrecy { return newSecrecy(Secrecy{each: each}) }

// SecretEntries is the secrecy of a map with the given values. Its keys are not secret.
func SecretEntries(each *Secrecy) *Secrecy { return newSecrecy(Secrecy{each: each, keyed: true}) }

// SecretEntry is the secrecy of a map with one entry that comes from the data of a Secret.
func SecretEntry(key string, value *Secrecy) *Secrecy {
	return newSecrecy(Secrecy{fields: map[string]*Secrecy{key: value}, keyed: true})
}

// newSecrecy completes a secrecy with its source and size; nil if it has no parts.
func newSecrecy(s Secrecy) *Secrecy {
	s.fields = maps.Clone(s.fields)
	maps.DeleteFunc(s.fields, func(_ string, part *Secrecy) bool { return part == nil })
	for _, part := range append(slices.Collect(maps.Values(s.fields)), s.each) {
		if part != nil {
			s.parts += part.parts
			s.source = firstSource(s.source, part.source)
		}
	}
	switch {
	case s.source == "":
		return nil
	case s.parts > maxSecretParts:
		return Secret(s.source).withKeys()
	}
	s.parts++
	return &s
}

func firstSource(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// Keys reports whether a value that comes from a Secret as a whole may have keys that do.
func (s *Secrecy) Keys() bool { return s.keys }

// withKeys is the secrecy of a value whose keys are secret too, if it is whole.
func (s *Secrecy) withKeys() *Secrecy {
	if s == nil || !s.whole || s.keys {
		return s
	}
	out := *s
	out.keys = true
	return &out
}

// Source is the path of data that the value contains, or was computed from.
func (s *Secrecy) Source() string { return s.source }

// Field is the secrecy of a field of an object, or of the entry of a map.
func (s *Secrecy) Field(name string) *Secrecy {
	if s == nil || s.whole {
		return s
	}
	return s.fields[name].Join(s.each)
}

// Item is the secrecy of any item of a list, or of any entry of a map.
func (s *Secrecy) Item() *Secrecy {
	if s == nil || s.whole {
		return s
	}
	out := s.each
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		out = out.Join(s.fields[name])
	}
	return out
}

// Visit calls found with the path and the secrecy of each part that comes from a Secret as a
// whole, in order. Each step is a name, or "*" for any item.
func (s *Secrecy) Visit(found func(path []string, part *Secrecy)) { s.visit(nil, found) }

func (s *Secrecy) visit(path []string, found func([]string, *Secrecy)) {
	switch {
	case s == nil:
		return
	case s.whole:
		found(path, s)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		s.fields[name].visit(append(path[:len(path):len(path)], name), found)
	}
	s.each.visit(append(path[:len(path):len(path)], "*"), found)
}

// Derived is the secrecy of a value that is computed from a value with this one.
func (s *Secrecy) Derived() *Secrecy {
	if s == nil || s.whole {
		return s
	}
	return Secret(s.source)
}

// Shape is the secrecy of what the size, the keys and the presence of parts say.
func (s *Secrecy) Shape() *Secrecy {
	if s == nil || !s.whole {
		return nil
	}
	return s
}

// Join is the secrecy of a value that contains, or is one of, two values with these.
func (s *Secrecy) Join(other *Secrecy) *Secrecy {
	switch {
	case other == nil || s == other:
		return s
	case s == nil:
		return other
	case s.whole || other.whole || s.parts+other.parts > maxSecretParts:
		out := Secret(firstSource(s.source, other.source))
		if !s.whole || !other.whole || s.keys || other.keys {
			return out.withKeys()
		}
		return out
	}
	fields := maps.Clone(s.fields)
	if fields == nil {
		fields = map[string]*Secrecy{}
	}
	for name, part := range other.fields {
		fields[name] = fields[name].Join(part)
	}
	return newSecrecy(Secrecy{fields: fields, each: s.each.Join(other.each), keyed: s.keyed && other.keyed})
}

// covers reports whether another secrecy has no parts that s lacks.
func (s *Secrecy) covers(other *Secrecy) bool {
	switch {
	case other == nil:
		return true
	case s == nil:
		return false
	case s.whole || other.whole:
		return s.whole
	}
	for name, part := range other.fields {
		if !s.Field(name).covers(part) {
			return false
		}
	}
	return s.each.covers(other.each)
}

func (s *Secrecy) along(path []Step) *Secrecy {
	for _, step := range path {
		if step.Name == "" || step.Each {
			s = s.Item()
		} else {
			s = s.Field(step.Name)
		}
	}
	return s
}

// Secrecy is the secrecy of the result, given the secrecy of the declared names. It holds for all values of these: a
// result that only depends on a value, such as a comparison's, comes from it too.
func (p *Program) Secrecy(of func(name string) *Secrecy) *Secrecy {
	reads := func(r Ref) bool { return of(r.Root).along(r.Path) != nil }
	first := slices.IndexFunc(p.refs, reads)
	if first < 0 {
		return nil
	}
	if path, is := p.Path(); is {
		return of(path.Root).along(path.Path)
	}
	// The syntax tree isn't kept: few programs read Secrets.
	checker, err := p.scope.checker()
	if err != nil {
		return of(p.refs[first].Root).Derived()
	}
	checked, issues := p.scope.compile(checker, p.source)
	if issues.Err() != nil {
		return of(p.refs[first].Root).Derived()
	}
	f := flow{tree: checked.NativeRep(), declared: of}
	return f.of(f.tree.Expr(), nil)
}

// Secrecy is the secrecy of the rendered template, given the secrecy of its expressions.
func (t *Template) Secrecy(of func(*Program) *Secrecy) *Secrecy { return secrecyOf(t.root, of) }

func secrecyOf(p piece, of func(*Program) *Secrecy) *Secrecy {
	var out *Secrecy
	switch p := p.(type) {
	case objectPiece:
		below := make(map[string]*Secrecy, len(p))
		for _, f := range p {
			below[f.name] = secrecyOf(f.value, of)
		}
		return SecretFields(below)
	case listPiece:
		for _, item := range p {
			out = out.Join(secrecyOf(item, of))
		}
		return SecretItems(out)
	case *valuePiece:
		return of(p.Program)
	case *textPiece:
		for _, part := range p.parts {
			if part.prog != nil {
				out = out.Join(of(part.prog).Derived())
			}
		}
		return out
	default:
		return nil
	}
}
