package language

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

// ItemKind is what a completion names, as the Language Server Protocol counts.
type ItemKind int

// Kinds of completions.
const (
	FunctionItem ItemKind = 3
	FieldItem    ItemKind = 5
	VariableItem ItemKind = 6
	ValueItem    ItemKind = 12
	KeywordItem  ItemKind = 14
)

// Item is a completion: Text replaces Range.
type Item struct {
	Label  string
	Kind   ItemKind
	Detail string
	// Doc is in Markdown.
	Doc   string
	Text  string
	Range Range
}

// maxItems bounds the completions at one place. A Pod has fewer fields.
const maxItems = 1000

// Complete returns what may stand at a position of a text that may be newer than the checked one: in an expression, names; elsewhere, fields and
// values.
func (c *Checked) Complete(name string, text *Text, at Position) []Item {
	if len(text.text) > MaxTextBytes {
		return nil
	}
	offset := text.Offset(at)
	p := c.at(name, text, offset)
	var out []Item
	switch {
	case p.inside:
		out = c.completeExpression(p)
	case p.isNew:
		out = c.completeNames(p)
	default:
		out = c.completeValue(p)
	}
	return out[:min(len(out), maxItems)]
}

func (p *place) rangeBefore(from int) Range {
	return Range{Start: p.text.Position(from), End: p.text.Position(p.offset)}
}

func (c *Checked) completeExpression(p place) []Item {
	d := c.definitionAt(p)
	if d == nil {
		return nil
	}
	env := d.EnvAt(p.path)
	if env == nil {
		return nil
	}
	all, from := env.Suggest(p.expression, p.offset-p.begin)
	replaced := p.rangeBefore(p.begin + from)
	out := make([]Item, 0, len(all))
	for _, s := range all {
		i := Item{Label: s.Name, Text: s.Name, Detail: s.Type, Doc: s.Doc, Range: replaced, Kind: VariableItem}
		switch s.Kind {
		case expr.SuggestField:
			i.Kind = FieldItem
		case expr.SuggestFunction, expr.SuggestMacro:
			i.Kind, i.Detail = FunctionItem, s.Signatures[0]
			if len(s.Signatures) > 1 {
				i.Doc = strings.TrimSpace(code(s.Signatures...) + "\n" + s.Doc)
			}
		case expr.SuggestVariable:
			if _, kind, isNode := d.NodeWithID(env.Declared(s.Name)); isNode && kind.Kind != "" {
				i.Detail = kind.Kind + " of " + kind.GroupVersion().String()
			}
		}
		out = append(out, i)
	}
	return out
}

func code(lines ...string) string { return "```\n" + strings.Join(lines, "\n") + "\n```\n" }

// They are the fields that an object may have besides its present ones.
func (c *Checked) completeNames(p place) []Item {
	replaced := p.rangeBefore(p.offset - len(strings.TrimLeft(p.line, " -")))
	existing, _ := valueAt(p.document.Object, p.path).(map[string]any)
	var out []Item
	if d := c.definitionAt(p); d != nil && strings.HasSuffix(string(p.path), ".waitFor") {
		for _, id := range d.NamesAt(p.path) {
			out = append(out, Item{Label: id, Text: id + ":", Kind: VariableItem, Range: replaced})
		}
		return out
	}
	s := unwrap(c.schemaAt(p.document.Object, p.path))
	for _, name := range fieldsOf(s) {
		if _, has := existing[name]; has {
			continue
		}
		field := s.Properties[name]
		i := Item{Label: name, Text: name + ":", Kind: FieldItem, Detail: typeOf(&field), Doc: field.Description, Range: replaced}
		if inner := unwrap(&field); len(inner.Properties) == 0 && inner.Items == nil {
			i.Text += " "
		}
		out = append(out, i)
	}
	return out
}

func (c *Checked) completeValue(p place) []Item {
	if p.document == nil || p.isName {
		return nil
	}
	m := keyLine.FindStringSubmatch(p.line)
	if m == nil {
		return nil
	}
	written := strings.TrimLeft(m[3], " ")
	replaced := p.rangeBefore(p.offset - len(written))
	steps := p.path.Segments()
	if len(steps) == 0 {
		return nil
	}
	parent, _ := valueAt(p.document.Object, parentOf(p.path)).(map[string]any)
	switch last := steps[len(steps)-1]; {
	case last == "apiVersion":
		return valueItems(c.groupVersions(), replaced)
	case last == "kind" && parent["apiVersion"] != nil:
		return valueItems(c.kindsOf(gvkOf(parent).GroupVersion()), replaced)
	case isGraph(gvkOf(p.document.Object)) && (hasPrefix(p.path, "spec.schema.spec.") || hasPrefix(p.path, "spec.schema.types.")):
		return c.completeType(p, written)
	}
	s := unwrap(c.schemaAt(p.document.Object, p.path))
	if s == nil {
		return nil
	}
	return valueItems(enumOf(s), replaced)
}

func hasPrefix(path object.Path, prefix string) bool { return strings.HasPrefix(string(path), prefix) }

func valueItems(values []string, replaced Range) []Item {
	out := make([]Item, 0, len(values))
	for _, v := range values {
		out = append(out, Item{Label: v, Text: v, Kind: ValueItem, Range: replaced})
	}
	return out
}

func (c *Checked) groupVersions() []string {
	found := map[string]bool{}
	for _, k := range c.workspace.Kinds() {
		found[k.GroupVersion().String()] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func (c *Checked) kindsOf(gv schema.GroupVersion) []string {
	var out []string
	for _, k := range c.workspace.Kinds() {
		if k.GroupVersion() == gv {
			out = append(out, k.Kind)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// They are the types of SimpleSchema, and behind a bar its markers.
func (c *Checked) completeType(p place, written string) []Item {
	if i := strings.LastIndexByte(written, '|'); i >= 0 {
		word := written[strings.LastIndexAny(written, " |")+1:]
		replaced := p.rangeBefore(p.offset - len(word))
		var out []Item
		for _, m := range specschema.Markers() {
			detail := "marker"
			if len(m.Types) > 0 {
				detail += " of " + strings.Join(m.Types, ", ")
			}
			out = append(out, Item{Label: m.Name, Text: m.Name + "=", Kind: KeywordItem, Detail: detail, Range: replaced})
		}
		return out
	}
	word := written[strings.LastIndexAny(written, "[]\"' ")+1:]
	replaced := p.rangeBefore(p.offset - len(word))
	var out []Item
	for _, name := range slices.Sorted(maps.Keys(specschema.Types())) {
		out = append(out, Item{Label: name, Text: name, Kind: KeywordItem, Detail: fmt.Sprintf("a %s of SimpleSchema", specschema.Types()[name]), Range: replaced})
	}
	types, _ := valueAt(p.document.Object, "spec.schema.types").(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		out = append(out, Item{Label: name, Text: name, Kind: KeywordItem, Detail: "a type of this definition", Range: replaced})
	}
	for _, shape := range []string{"[]string", "map[string]string"} {
		out = append(out, Item{Label: shape, Text: shape, Kind: KeywordItem, Range: replaced})
	}
	return out
}
