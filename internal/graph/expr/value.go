package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// A template can be a value that further expressions read. Its type is made of the types
// of its parts, which it shares: a value that holds a whole Deployment twice costs two
// pointers.

// rendered returns the shape of what a piece of a template renders; the name serves its
// type, if it needs one.
func (r *shapes) rendered(p *piece, name string) *shape {
	switch p.kind {
	case fields:
		below := make(map[string]*shape, len(p.fields))
		for i := range p.fields {
			below[p.fields[i].name] = r.rendered(&p.fields[i].value, name+"."+p.fields[i].name)
		}
		return r.composed(below, name)
	case list:
		items := make([]*shape, len(p.items))
		for i := range p.items {
			items[i] = r.rendered(&p.items[i], name+".@item")
		}
		return listShape(agreedShape(items))
	case standalone:
		if p.prog.chain != nil {
			if s, ok := p.prog.env.at(*p.prog.chain); ok {
				return s
			}
		}
		t := p.prog.typ
		if inner, ok := unwrapped(t); ok {
			t = inner
		}
		return r.typed(t)
	case interpolated:
		return r.typed(cel.StringType)
	default:
		return r.written(p.literal, name)
	}
}

// written returns the shape of what holds no expression.
func (r *shapes) written(v any, name string) *shape {
	switch v := v.(type) {
	case string:
		return r.typed(cel.StringType)
	case bool:
		return r.typed(cel.BoolType)
	case int64:
		return r.typed(cel.IntType)
	case float64:
		return r.typed(cel.DoubleType)
	case []any:
		items := make([]*shape, len(v))
		for i := range v {
			items[i] = r.written(v[i], name+".@item")
		}
		return listShape(agreedShape(items))
	case map[string]any:
		below := make(map[string]*shape, len(v))
		for field, value := range v {
			below[field] = r.written(value, name+"."+field)
		}
		return r.composed(below, name)
	default:
		return nil // null stands for anything
	}
}

func listShape(elem *shape) *shape {
	return &shape{kind: ofList, elem: elem, cel: cel.ListType(elem.celType())}
}

// agreedShape returns the shape that all have; nil unless they are alike.
func agreedShape(all []*shape) *shape {
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

// composed returns the shape of an object with the given fields. One with keys that can't
// be names, such as labels, is a map: its entries can be read only by their keys.
func (r *shapes) composed(below map[string]*shape, name string) *shape {
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
		elem := agreedShape(values)
		return &shape{kind: ofMap, elem: elem, cel: cel.MapType(cel.StringType, elem.celType())}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byFields[text.String()]; ok {
		return known
	}
	made := &shape{kind: ofObject, in: r, schema: &spec.Schema{SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{"object"}, Properties: make(map[string]spec.Schema, len(names)),
	}}}
	for _, field := range names {
		made.schema.Properties[field] = spec.Schema{}
	}
	made.fields.Store(&below)
	r.name(made, name)
	r.byFields[text.String()] = made
	return made
}

// isName tells whether a key may follow a dot.
func isName(key string) bool {
	for i := range len(key) {
		if !isWord(key[i]) || i == 0 && '0' <= key[i] && key[i] <= '9' {
			return false
		}
	}
	return key != ""
}

// signature is a text that shapes have in common which mean the same to every expression.
func (s *shape) signature() string {
	switch s.kindOf() {
	case ofAnything:
		return "?"
	case ofObject:
		return s.name
	case ofList:
		return "[" + s.elem.signature() + "]"
	case ofMap:
		return "{" + s.elem.signature() + "}"
	case ofTimestamp:
		return fmt.Sprint(s.kind, s.schema.Format)
	default:
		return fmt.Sprint(s.kind)
	}
}
