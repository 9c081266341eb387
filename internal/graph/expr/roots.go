package expr

import (
	"maps"
	"slices"
)

// Roots lists, sorted, which of some names the expressions of a document read. What is
// wrong with them is left to be told by who compiles the document.
func (e *Env) Roots(doc any, among func(name string) bool) []string {
	found := map[string]bool{}
	c := collector{declared: among}
	each(doc, func(source string) {
		if e.beyond(source, "") != nil {
			return
		}
		parsed, issues := e.cel.Parse(source)
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

// each calls back for each expression in a document.
func each(doc any, found func(source string)) {
	switch v := doc.(type) {
	case map[string]any:
		for _, value := range v {
			each(value, found)
		}
	case []any:
		for _, value := range v {
			each(value, found)
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
