package conversion

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/object"
)

// checkResult reports why valid objects of the source may not convert to valid objects of
// the target: required fields that nothing sets, and expressions that read fields which may
// be absent.
func (w *transform) checkResult() diag.List {
	var out diag.List
	w.missingRequired(orObject(w.source.Spec), orObject(w.target.Spec), w.assigned, w.at, specPath, &out)
	w.unguardedReads(&out)
	return out
}

func (w *transform) missingRequired(from, to *props, assigned fieldSet, at, where object.Path, out *diag.List) {
	for _, name := range slices.Sorted(maps.Keys(to.Properties)) {
		is, was := field(to, name), field(from, name)
		required := slices.Contains(to.Required, name) && is.Default == nil
		_, named := assigned[name]
		switch {
		case assigned.hasWhole(name):
		case isAssignable(was, is):
			if required && !named && !slices.Contains(from.Required, name) && was.Default == nil {
				out.Add(diag.Diagnostic{
					Path:    at.Field(name),
					Problem: fmt.Sprintf("%s is required in %s and may be absent in %s", where.Field(name), w.target.Name, w.source.Name),
					Expected: fmt.Sprintf("%s, or a default in %s", setter(where, "an expression that sets it, such as ${"+optionalPath(where, name)+".orValue(…)}"),
						w.target.Name),
				})
			}
			w.missingRequiredBelow(was, is, assigned[name], at.Field(name), where.Field(name), out)
		case named:
			w.missingRequired(&props{Type: "object"}, is, assigned[name], at.Field(name), where.Field(name), out)
		case required:
			why := "nothing sets it"
			if was != nil {
				why = fmt.Sprintf("it has another type in %s, so it is not copied", w.source.Name)
			}
			out.Add(diag.Diagnostic{
				Path:     at.Field(name),
				Problem:  fmt.Sprintf("%s is required in %s, and %s", where.Field(name), w.target.Name, why),
				Expected: fmt.Sprintf("%s, or a default in %s", setter(where, "an expression here"), w.target.Name),
				Nearest:  diag.Nearest(name, slices.Collect(maps.Keys(from.Properties))),
			})
		}
	}
}

func (w *transform) missingRequiredBelow(from, to *props, assigned fieldSet, at, where object.Path, out *diag.List) {
	switch kindOf(to) {
	case structure:
		w.missingRequired(from, to, assigned, at, where, out)
	case list:
		w.missingRequiredBelow(itemsOf(from), itemsOf(to), nil, at+"[]", where+"[]", out)
	case mapping:
		w.missingRequiredBelow(valuesOf(from), valuesOf(to), nil, at+"[*]", where+"[*]", out)
	}
}

// setter says what sets a field of an object. No expression sets a field of the items of a list or of the values of a map:
// one computes all of them.
func setter(where object.Path, inObject string) string {
	if parts := eachOf.Split(string(where), 2); len(parts) > 1 {
		return "an expression for " + parts[0] + " that sets it in each of them"
	}
	return inObject
}

// eachOf matches the items of a list and the values of a map in a path.
var eachOf = regexp.MustCompile(`\[\*?\]`)

// optionalPath returns the expression that reads a field that may be absent, as may the objects around it.
func optionalPath(where object.Path, name string) string {
	return selfVariable + "." + strings.ReplaceAll(string(where.Field(name)), ".", ".?")
}

// unguardedReads reports expressions that fail for an object with only its required fields.
func (w *transform) unguardedReads(out *diag.List) {
	if w.template == nil {
		return
	}
	vars := map[string]any{selfVariable: map[string]any{
		"apiVersion": "", "kind": "", "metadata": map[string]any{"name": "x"}, "spec": minimalObject(orObject(w.source.Spec)),
	}}
	_, missing := w.template.RenderPartial(nil, vars, nil)
	for _, m := range missing {
		var pending *expr.Pending
		if w.plainPaths[m.At] || !errors.As(m.Err, &pending) || len(pending.Refs) == 0 {
			continue
		}
		out.Add(diag.Diagnostic{
			Path: m.At, Expr: w.expressionAt(m.At),
			Problem:  fmt.Sprintf("reads %s, which may be absent in %s", joinPaths(pending.Refs), w.source.Name),
			Expected: "an expression for absent fields, such as .?field.orValue(…) or has(…)",
		})
	}
}

// minimalObject is an object with only its required fields and its defaults.
func minimalObject(s *props) map[string]any {
	out := map[string]any{}
	for _, name := range s.Required {
		p := field(s, name)
		if p == nil || p.Default != nil {
			continue
		}
		out[name] = sampleValue(p)
	}
	applyDefaults(out, s)
	return out
}

func sampleValue(s *props) any {
	if len(s.Enum) > 0 {
		if value, err := decode(s.Enum[0].Raw); err == nil {
			return value
		}
	}
	switch kindOf(s) {
	case structure:
		return minimalObject(s)
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
