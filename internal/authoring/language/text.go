package language

import (
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/internal/diag/source"
)

// Position is a place in a text as the Language Server Protocol counts: from 0, and a character is a UTF-16 code unit.
type Position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

// Range is a part of a text; End is the place after it.
type Range struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// Text is an immutable text with its lines.
type Text struct {
	text string
	// lines are the bytes at which lines begin. They end with a line feed, a carriage return, or both.
	lines []int
}

// NewText returns a text.
func NewText(text string) *Text {
	t := &Text{text: text, lines: []int{0}}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n':
			continue
		case text[i] == '\n', text[i] == '\r':
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// String returns the text.
func (t *Text) String() string { return t.text }

// It returns a line without its end, and its first byte.
func (t *Text) line(n int) (string, int) {
	begin, end := t.lines[n], len(t.text)
	if n+1 < len(t.lines) {
		end = t.lines[n+1]
	}
	return strings.TrimRight(t.text[begin:end], "\r\n"), begin
}

// Offset returns the byte at a position. A position behind the end of a line is the end of the line, one behind the text the end of
// the text, and one inside a character its beginning.
func (t *Text) Offset(p Position) int {
	switch {
	case p.Line < 0:
		return 0
	case p.Line >= len(t.lines):
		return len(t.text)
	}
	line, begin := t.line(p.Line)
	units := 0
	for i, r := range line {
		units += unitsOf(r)
		if units > p.Character {
			return begin + i
		}
	}
	return begin + len(line)
}

func unitsOf(r rune) int {
	if n := utf16.RuneLen(r); n > 0 {
		return n
	}
	return 1 // a replacement character
}

// Position returns the position of a byte; inside a character, the position of its beginning.
func (t *Text) Position(offset int) Position {
	offset = min(max(offset, 0), len(t.text))
	n := sort.SearchInts(t.lines, offset+1) - 1
	line, begin := t.line(n)
	p := Position{Line: n}
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		if i += size; begin+i > offset {
			break // the byte is inside the character, or its first one
		}
		p.Character += unitsOf(r)
	}
	return p
}

// Replace returns the text with another one in place of a range.
func (t *Text) Replace(r Range, with string) *Text {
	from, to := t.Offset(r.Start), t.Offset(r.End)
	if to < from {
		from, to = to, from
	}
	return NewText(t.text[:from] + with + t.text[to:])
}

// Such places end lines with line feeds only, and count characters.
func (t *Text) fromSource(p source.Position) int {
	at := 0
	for range p.Line - 1 {
		i := strings.IndexByte(t.text[at:], '\n')
		if i < 0 {
			return len(t.text)
		}
		at += i + 1
	}
	for range p.Column - 1 {
		if at >= len(t.text) || t.text[at] == '\n' {
			break
		}
		_, size := utf8.DecodeRuneInString(t.text[at:])
		at += size
	}
	return at
}

// Inside a character, it is the place of its beginning.
func (t *Text) toSource(offset int) source.Position {
	before := t.text[:offset]
	begin := strings.LastIndexByte(before, '\n') + 1
	p := source.Position{Line: strings.Count(before, "\n") + 1, Column: 1}
	for begin < offset {
		_, size := utf8.DecodeRuneInString(t.text[begin:])
		if begin += size; begin <= offset {
			p.Column++
		}
	}
	return p
}

// One character of a name is extended to all of the name.
func (t *Text) rangeOf(r source.Range) Range {
	from, to := t.fromSource(r.Start), t.fromSource(r.End)
	if to > from && isName(t.text[from]) && utf8.RuneCountInString(t.text[from:to]) == 1 {
		for to < len(t.text) && isName(t.text[to]) {
			to++
		}
	}
	return Range{Start: t.Position(from), End: t.Position(max(from, to))}
}

func isName(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
