package graph

import (
	"slices"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/object"
)

// Source is where the value of a field comes from in a definition.
type Source struct {
	// Path is the field of the definition with the expression, or else with the literal value.
	Path object.Path
	// Expressions are those in the value, or the one around it that gives more than the value. Without any, the value is a
	// literal.
	Expressions []expr.Expression
}

// SourceOf returns the source of a field of a node's object; false if the definition does not set it. Steps of the
// path are names of fields and indexes of items. Where items have names, the API server may keep them in another
// order, so they are found in the template by these.
func (g *Graph) SourceOf(id string, live map[string]any, path []any) (Source, bool) {
	n := g.node(id)
	if n == nil || n.template == nil {
		return Source{}, false
	}
	if at, has := inTemplate(n.template, live, path); has {
		if source, isSet := sourceOf(n.template, n.at.Field("template"), at); isSet {
			return source, true
		}
	}
	return g.propagationOf(live, path)
}

// inTemplate returns the path in a template of what is at a path of an object; false if the template does not have it.
func inTemplate(t *expr.Template, value any, path []any) ([]any, bool) {
	out := slices.Clone(path)
	for i, step := range path {
		switch step := step.(type) {
		case string:
			fields, _ := value.(map[string]any)
			value = fields[step]
		case int:
			items, _ := value.([]any)
			if step < 0 || step >= len(items) {
				return out, true
			}
			value = items[step]
			fields, _ := value.(map[string]any)
			if name, hasName := fields["name"].(string); hasName {
				at, found := t.ItemNamed(out[:i], name)
				switch {
				case found:
					out[i] = at
				case t.HasLiteral(append(slices.Clone(out[:i+1]), "name")):
					return nil, false // the item there is another one
				}
			}
		}
	}
	return out, true
}

// StatusSourceOf returns the source of a field of an instance's status; false if it is not one of the author's fields.
func (g *Graph) StatusSourceOf(path []any) (Source, bool) {
	return sourceOf(g.status, "spec.schema.status", path)
}

func sourceOf(t *expr.Template, at object.Path, path []any) (Source, bool) {
	if t == nil {
		return Source{}, false
	}
	out := Source{Path: at}
	for _, x := range t.Expressions() {
		isAround := len(x.At) <= len(path) && slices.Equal(x.At, path[:len(x.At)])
		isInside := len(path) <= len(x.At) && slices.Equal(path, x.At[:len(path)])
		if isAround && (x.Standalone || len(x.At) == len(path)) || isInside {
			out.Expressions = append(out.Expressions, x)
		}
	}
	if len(out.Expressions) == 1 {
		out.Path = out.Expressions[0].Path
		return out, true
	}
	for _, step := range path {
		out.Path = appendStep(out.Path, step)
	}
	return out, len(out.Expressions) > 0 || t.Has(path)
}

func appendStep(path object.Path, step any) object.Path {
	if i, isIndex := step.(int); isIndex {
		return path.Index(i)
	}
	name, _ := step.(string)
	return path.Field(name)
}
