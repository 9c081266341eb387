package source

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/espalier-dev/espalier/internal/object"
)

// Range returns the place of a field: of its value if that is a single one, and of its key otherwise. If the field is
// missing, it is the place of the field that should have it.
func (d *Document) Range(path object.Path) Range {
	key, value := d.find(path)
	if value.Kind == yaml.ScalarNode && value.Value != "" || key == nil {
		return d.rangeOf(value)
	}
	return d.rangeOf(key)
}

// RangeOf returns the place of a part of an expression: the length bytes from offset of expr, which is in the
// field at path. If the expression cannot be found in the text, such as in one with escapes,
// it is the place of the field.
func (d *Document) RangeOf(path object.Path, expr string, offset, length int) Range {
	_, value := d.find(path)
	whole := d.Range(path)
	if value.Kind != yaml.ScalarNode || expr == "" {
		return whole
	}
	// A problem's path may name the item of an expression's list: the expression is in a field above.
	text, from := d.textFrom(value)
	at := strings.Index(text, expr)
	if at < 0 {
		at, offset, length = indexOfLine(text, expr, offset)
		if at < 0 {
			return whole
		}
	}
	offset = min(max(offset, 0), len(text)-at)
	length = min(max(length, 1), len(text)-at-offset)
	start := advance(from, text[:at+offset])
	return Range{Start: start, End: advance(start, text[at+offset:at+offset+length])}
}

// indexOfLine finds the line of an expression of several lines that has the byte at offset: in a
// block, each line of the text is indented.
func indexOfLine(text, expr string, offset int) (at, within, length int) {
	at, from := 0, 0
	for _, line := range strings.Split(expr, "\n") {
		trimmed := strings.TrimSpace(line)
		i := strings.Index(text[at:], trimmed)
		if i < 0 {
			return -1, 0, 0
		}
		at += i
		if offset <= from+len(line) {
			indent := len(line) - len(strings.TrimLeft(line, " \t"))
			return at, max(offset-from-indent, 0), 1
		}
		at += len(trimmed)
		from += len(line) + 1
	}
	return -1, 0, 0
}

func advance(from Position, text string) Position {
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		return Position{from.Line + strings.Count(text, "\n"), utf8.RuneCountInString(text[i+1:]) + 1}
	}
	return Position{from.Line, from.Column + utf8.RuneCountInString(text)}
}

// It is the nearest existing field above a missing one. The document itself has no key.
func (d *Document) find(path object.Path) (key, value *yaml.Node) {
	value = d.root
	for _, segment := range path.Segments() {
		k, v := child(value, segment)
		if v == nil {
			break
		}
		if k != nil {
			key = k
		} else {
			key = v
		}
		value = v
	}
	return key, value
}

// An item of a list has no key.
func child(n *yaml.Node, segment any) (key, value *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch s := segment.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && s < len(n.Content) {
			return nil, n.Content[s]
		}
	case string:
		if n.Kind != yaml.MappingNode {
			return nil, nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == s {
				return n.Content[i], n.Content[i+1]
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Tag == "!!merge" {
				if k, v := child(n.Content[i+1], s); v != nil {
					return k, v
				}
			}
		}
	}
	return nil, nil
}

// Of a single value it is all of it, of a list or an object its beginning.
func (d *Document) rangeOf(n *yaml.Node) Range {
	text, start := d.textFrom(n)
	line, _, _ := strings.Cut(text, "\n")
	line = strings.TrimRight(line, "\r")
	length := utf8.RuneCountInString(line)
	switch {
	case line == "": // YAML ends lines at more characters than a newline: a value may be in a line of its own
	case n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
	case n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		if i := strings.IndexByte(line[min(1, len(line)):], line[0]); i >= 0 {
			length = utf8.RuneCountInString(line[:i+2])
		}
	case n.Kind == yaml.ScalarNode && strings.HasPrefix(line, n.Value):
		length = utf8.RuneCountInString(n.Value)
	case n.Kind != yaml.ScalarNode:
		length = min(length, 1)
	}
	return Range{Start: start, End: Position{start.Line, start.Column + length}}
}

// It ends at the end of its document, or after 64 KiB.
func (d *Document) textFrom(n *yaml.Node) (string, Position) {
	const maxSearched = 64 << 10
	line := min(max(n.Line, 1)+d.first, len(d.lines))
	text := d.lines[line-1]
	for i := 1; i < n.Column && text != ""; i++ {
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
	}
	var b strings.Builder
	b.WriteString(text)
	for i := line; i < len(d.lines) && b.Len() < maxSearched && d.lines[i] != "---"; i++ {
		b.WriteString("\n")
		b.WriteString(d.lines[i])
	}
	return b.String(), Position{line, max(n.Column, 1)}
}

// At returns the path of the field at a position: the last one that begins at or before it.
// onKey says that the position is on the field's name.
func (d *Document) At(p Position) (path object.Path, onKey bool) {
	d.walk(d.root, "", func(key bool, n *yaml.Node, at object.Path) bool {
		_, start := d.textFrom(n)
		if p.Before(start) {
			return false
		}
		path, onKey = at, key && d.rangeOf(n).Contains(p)
		return true
	})
	return path, onKey
}

// They come in the order of the text, until visit returns false.
func (d *Document) walk(n *yaml.Node, at object.Path, visit func(key bool, n *yaml.Node, at object.Path) bool) bool {
	for i, c := range n.Content {
		var below object.Path
		switch {
		case n.Kind == yaml.SequenceNode:
			below = at.Index(i)
		case i%2 == 0:
			if !visit(true, c, at.Field(c.Value)) {
				return false
			}
			continue
		default:
			below = at.Field(n.Content[i-1].Value)
		}
		if c.Kind == yaml.ScalarNode || n.Kind == yaml.SequenceNode {
			if !visit(false, c, below) {
				return false
			}
		}
		if !d.walk(c, below, visit) {
			return false
		}
	}
	return true
}
