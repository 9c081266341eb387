package language

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/graph/expr"
)

// Hover says what is at a position of a text that may be newer than the checked one, in Markdown: of a name in an
// expression its type and documentation, of a field what its schema says. It may be empty.
func (c *Checked) Hover(name string, text *Text, at Position) (markdown string, of Range) {
	if len(text.text) > MaxTextBytes {
		return "", of
	}
	p := c.at(name, text, text.Offset(at))
	if p.inside {
		return c.hoverExpression(p)
	}
	if p.document == nil || p.isNew || p.path == "" {
		return "", of
	}
	steps := p.path.Segments()
	last, isField := steps[len(steps)-1].(string)
	if !isField {
		return "", of
	}
	if last == "kind" && !p.isName {
		return c.hoverKind(p)
	}
	s := c.schemaAt(p.document.Object, p.path)
	if s == nil || !p.isName {
		return "", of
	}
	return describeField(last, s), p.word()
}

func (p *place) word() Range {
	from, to := p.offset, p.offset
	isPart := func(c byte) bool { return isName(c) || c == '-' || c == '.' || c == '/' }
	for from > 0 && isPart(p.text.text[from-1]) {
		from--
	}
	for to < len(p.text.text) && isPart(p.text.text[to]) {
		to++
	}
	return Range{Start: p.text.Position(from), End: p.text.Position(to)}
}

func (c *Checked) hoverKind(p place) (string, Range) {
	o, _ := valueAt(p.document.Object, parentOf(p.path)).(map[string]any)
	gvk := gvkOf(o)
	kind, known := c.lookUp(gvk)
	if !known {
		return "", Range{}
	}
	scope := "cluster-scoped"
	if kind.Namespaced {
		scope = "namespaced"
	}
	text := code(fmt.Sprintf("%s of %s, %s", gvk.Kind, gvk.GroupVersion(), scope))
	if kind.ServedByDefinition {
		text += "\nServed by a definition.\n"
	}
	if kind.Schema != nil && kind.Schema.Description != "" {
		text += "\n" + kind.Schema.Description + "\n"
	}
	return text, p.word()
}

func (c *Checked) hoverExpression(p place) (string, Range) {
	d := c.definitionAt(p)
	if d == nil {
		return "", Range{}
	}
	env := d.EnvAt(p.path)
	if env == nil {
		return "", Range{}
	}
	found, ok := env.Describe(p.expression, p.offset-p.begin)
	if !ok {
		return "", Range{}
	}
	of := Range{Start: p.text.Position(p.begin + found.From), End: p.text.Position(p.begin + found.To)}
	if found.Kind == expr.SuggestFunction || found.Kind == expr.SuggestMacro {
		return strings.TrimSpace(code(found.Signatures...)+"\n"+found.Doc) + "\n", of
	}
	text := code(found.Name + ": " + found.Type)
	if _, kind, isNode := d.NodeWithID(found.Ref.Root); isNode && len(found.Ref.Path) == 0 && kind.Kind != "" {
		text += fmt.Sprintf("\nThe resource %s, a %s of %s.\n", found.Name, kind.Kind, kind.GroupVersion())
	}
	if found.Doc != "" {
		text += "\n" + found.Doc + "\n"
	}
	return text, of
}
