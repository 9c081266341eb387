package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
)

// A template can be a value that further expressions read. Its shape is composed of the
// shapes of its parts, which it shares: a value that contains a Deployment twice costs two
// pointers.

// ofPiece returns the shape of the rendered value of a piece. An object's CEL type is named
// after name.
func (r *shapes) ofPiece(p piece, name string) *shape {
	switch p := p.(type) {
	case objectPiece:
		below := make(map[string]*shape, len(p))
		for _, f := range p {
			below[f.name] = r.ofPiece(f.value, name+"."+f.name)
		}
		return r.ofFields(below, name)
	case listPiece:
		items := make([]*shape, len(p))
		for i, item := range p {
			items[i] = r.ofPiece(item, name+".@item")
		}
		return listShape(commonShape(items))
	case *valuePiece:
		if path, is := p.Path(); is {
			if s, ok := p.scope.shapeAt(path); ok {
				return s
			}
		}
		t := p.typ
		if inner, ok := unwrapped(t); ok {
			t = inner
		}
		return r.ofCELType(t)
	case *textPiece:
		return r.ofCELType(cel.StringType)
	default:
		return r.ofLiteral(p, name)
	}
}

func (r *shapes) ofLiteral(v any, name string) *shape {
	switch v := v.(type) {
	case string:
		return r.ofCELType(cel.StringType)
	case bool:
		return r.ofCELType(cel.BoolType)
	case int64:
		return r.ofCELType(cel.IntType)
	case float64:
		return r.ofCELType(cel.DoubleType)
	case []any:
		items := make([]*shape, len(v))
		for i := range v {
			items[i] = r.ofLiteral(v[i], name+".@item")
		}
		return listShape(commonShape(items))
	case map[string]any:
		below := make(map[string]*shape, len(v))
		for field, value := range v {
			below[field] = r.ofLiteral(value, name+"."+field)
		}
		return r.ofFields(below, name)
	default:
		return nil // null stands for anything
	}
}

func listShape(elem *shape) *shape {
	return &shape{kind: ofList, elem: elem, cel: cel.ListType(elem.celType())}
}

func commonShape(all []*shape) *shape {
	for _, s := range all {
		if s.signature() != all[0].signature() {
			return nil
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// ofFields returns the shape of an object with the given fields. An object with keys that
// are not valid names, such as labels, is a map: its entries are read by key.
func (r *shapes) ofFields(below map[string]*shape, name string) *shape {
	names := slices.Sorted(maps.Keys(below))
	values := make([]*shape, len(names))
	named := len(names) > 0
	var text strings.Builder
	for i, field := range names {
		values[i] = below[field]
		named = named && isName(field)
		fmt.Fprintf(&text, "%q:%s,", field, values[i].signature())
	}
	if !named {
		elem := commonShape(values)
		return &shape{kind: ofMap, elem: elem, cel: cel.MapType(cel.StringType, elem.celType())}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byFields[text.String()]; ok {
		return known
	}
	fields := make([]fieldShape, len(names))
	for i, field := range names {
		fields[i] = fieldShape{field, values[i]}
	}
	made := &shape{kind: ofObject, object: &objectShape{in: r}}
	made.object.fields.Store(&fields)
	r.name(made, name)
	r.byFields[text.String()] = made
	return made
}

// isName reports whether a key may follow a dot.
func isName(key string) bool {
	for i := range len(key) {
		if !isWord(key[i]) || i == 0 && '0' <= key[i] && key[i] <= '9' {
			return false
		}
	}
	return key != ""
}

// signature is a text that is equal for shapes with the same meaning to every expression.
func (s *shape) signature() string {
	switch s.kindOf() {
	case ofAnything:
		return "?"
	case ofObject:
		return s.object.name
	case ofList:
		return "[" + s.elem.signature() + "]"
	case ofMap:
		return "{" + s.elem.signature() + "}"
	case ofTimestamp:
		return fmt.Sprint(s.kind, s.schemaTraits().format)
	default:
		return fmt.Sprint(s.kind)
	}
}
