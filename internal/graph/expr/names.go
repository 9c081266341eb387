package expr

import (
	"maps"
	"slices"
)

// ReferencedNames lists, sorted, the names that the expressions of a document read, of
// those that include accepts. It skips invalid expressions: compiling the document reports
// them.
func (e *Env) ReferencedNames(doc any, include func(name string) bool) []string {
	found := map[string]bool{}
	c := collector{isDeclared: include}
	forEachExpression(doc, func(source string) {
		if e.checkLimits(source, "") != nil {
			return
		}
		parsed, issues := e.parse(e.cel, source)
		if issues.Err() != nil {
			return
		}
		c.refs = nil
		c.visit(parsed.NativeRep().Expr(), nil, nil)
		for _, r := range c.refs {
			found[r.Root] = true
		}
	})
	return slices.Sorted(maps.Keys(found))
}

func forEachExpression(doc any, found func(source string)) {
	switch v := doc.(type) {
	case map[string]any:
		for _, value := range v {
			forEachExpression(value, found)
		}
	case []any:
		for _, value := range v {
			forEachExpression(value, found)
		}
	case string:
		segments, err := Split(v)
		if err != nil {
			return
		}
		for _, s := range segments {
			if s.Expr {
				found(s.Text)
			}
		}
	}
}
