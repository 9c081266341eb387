package conversion

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/object"
)

// unfit lists why objects of the source may make none of the target: required fields
// that nothing gives, and expressions that read what may not be there.
func (w *way) unfit() diag.List {
	var out diag.List
	w.ungiven(orObject(w.source.Spec), orObject(w.target.Spec), w.said, w.at, specPath, &out)
	w.unread(&out)
	return out
}

// ungiven lists required fields of an object that nothing gives.
func (w *way) ungiven(from, to *props, said mention, at, where object.Path, out *diag.List) {
	for _, name := range slices.Sorted(maps.Keys(to.Properties)) {
		is, was := field(to, name), field(from, name)
		required := slices.Contains(to.Required, name) && is.Default == nil
		_, named := said[name]
		switch {
		case said.gives(name):
		case carries(was, is):
			if required && !named && !slices.Contains(from.Required, name) && was.Default == nil {
				out.Add(diag.Diagnostic{
					Path:     at.Field(name),
					Problem:  fmt.Sprintf("%s is required in %s and may be absent in %s", where.Field(name), w.target.Name, w.source.Name),
					Expected: fmt.Sprintf("an expression that gives it, such as ${%s.orValue(…)}, or a default in %s", optional(where, name), w.target.Name),
				})
			}
			w.ungivenBelow(was, is, said[name], at.Field(name), where.Field(name), out)
		case named:
			w.ungiven(&props{Type: "object"}, is, said[name], at.Field(name), where.Field(name), out)
		case required:
			why := "nothing gives it"
			if was != nil {
				why = fmt.Sprintf("it is of another type in %s, so that it isn't carried over", w.source.Name)
			}
			out.Add(diag.Diagnostic{
				Path:     at.Field(name),
				Problem:  fmt.Sprintf("%s is required in %s, and %s", where.Field(name), w.target.Name, why),
				Expected: "an expression here, or a default in " + w.target.Name,
				Nearest:  diag.Nearest(name, slices.Collect(maps.Keys(from.Properties))),
			})
		}
	}
}

// ungivenBelow looks into what is carried over.
func (w *way) ungivenBelow(from, to *props, said mention, at, where object.Path, out *diag.List) {
	switch kindOf(to) {
	case structure:
		w.ungiven(from, to, said, at, where, out)
	case list:
		if kindOf(itemsOf(to)) == structure {
			w.ungiven(itemsOf(from), itemsOf(to), nil, at+"[]", where+"[]", out)
		}
	case mapping:
		if kindOf(valuesOf(to)) == structure {
			w.ungiven(valuesOf(from), valuesOf(to), nil, at+"[*]", where+"[*]", out)
		}
	}
}

// optional is how an expression reads a field that may be absent.
func optional(where object.Path, name string) string {
	return selfVariable + "." + string(where) + ".?" + name
}

// unread lists expressions that fail for an object which has only what it must have.
func (w *way) unread(out *diag.List) {
	if w.doc == nil {
		return
	}
	vars := map[string]any{selfVariable: map[string]any{
		"apiVersion": "", "kind": "", "metadata": map[string]any{"name": "x"}, "spec": least(orObject(w.source.Spec)),
	}}
	_, missing := w.doc.RenderPartial(vars, nil)
	for _, m := range missing {
		var pending *expr.Pending
		if w.moved[m.At] || !errors.As(m.Err, &pending) || len(pending.Refs) == 0 {
			continue
		}
		out.Add(diag.Diagnostic{
			Path: m.At, Expr: w.textAt(m.At),
			Problem:  fmt.Sprintf("reads %s, which may be absent in %s", paths(pending.Refs), w.source.Name),
			Expected: "a question for it, such as .?field.orValue(…) or has(…)",
		})
	}
}

// least is an object with only what it must have.
func least(s *props) map[string]any {
	out := map[string]any{}
	for _, name := range s.Required {
		p := field(s, name)
		if p == nil || p.Default != nil {
			continue
		}
		out[name] = sample(p)
	}
	fill(out, s)
	return out
}

func sample(s *props) any {
	if len(s.Enum) > 0 {
		if value, err := decode(s.Enum[0].Raw); err == nil {
			return value
		}
	}
	switch kindOf(s) {
	case structure:
		return least(s)
	case mapping, anything:
		return map[string]any{}
	case list:
		return []any{}
	case "integer":
		if s.Minimum != nil {
			return int64(*s.Minimum)
		}
		return int64(0)
	case "number":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return float64(0)
	case "boolean":
		return false
	}
	return ""
}
