package schema

import (
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
)

type kind int

const (
	invalidType kind = iota // not understood, and reported
	named                   // string, Address
	list                    // []T
	mapping                 // map[string]T
)

// typeExpr is a type before any name is resolved.
type typeExpr struct {
	kind kind
	name string    // of a named type
	elem *typeExpr // of a list's items or a map's values
	at   int       // its offset in the text
}

func readType(text string, end int) (typeExpr, *diag.Diagnostic) {
	var wrap []kind
	at, end := trim(text, 0, end)
	start := at
	for len(wrap) <= maxDepth {
		rest := text[at:end]
		switch {
		case strings.HasPrefix(rest, "[]"):
			wrap = append(wrap, list)
			at += len("[]")
		case strings.HasPrefix(rest, "map[string]"):
			wrap = append(wrap, mapping)
			at += len("map[string]")
		case rest == "":
			return typeExpr{}, missingType(text[start:end], at)
		case typeName.MatchString(rest):
			t := typeExpr{kind: named, name: rest, at: at}
			for i := len(wrap) - 1; i >= 0; i-- {
				inner := t
				t = typeExpr{kind: wrap[i], elem: &inner, at: start}
			}
			return t, nil
		default:
			return typeExpr{}, malformedType(rest, at)
		}
		at, end = trim(text, at, end)
	}
	return typeExpr{}, &diag.Diagnostic{Offset: start, Problem: "the type is nested too deeply; at most " + strconv.Itoa(maxDepth) + " levels are allowed"}
}

func missingType(wrapped string, at int) *diag.Diagnostic {
	switch {
	case wrapped == "":
		return &diag.Diagnostic{Offset: at, Problem: "the type is missing", Expected: `a type such as "string | required=true"`}
	case strings.HasSuffix(wrapped, "[]"):
		return &diag.Diagnostic{Offset: at, Problem: "the type of the list's items is missing", Expected: `a type such as "[]string"`}
	default:
		return &diag.Diagnostic{Offset: at, Problem: "the type of the map's values is missing", Expected: `a type such as "map[string]string"`}
	}
}

// malformedType describes text that is not a type, with what the author may have meant.
func malformedType(rest string, at int) *diag.Diagnostic {
	d := &diag.Diagnostic{Offset: at, Problem: quote(rest) + " is not a type"}
	word, more, spaced := strings.Cut(rest, " ")
	switch {
	case strings.HasPrefix(rest, "${"):
		d.Problem = "an expression stands where a type is expected"
		d.Expected = "a type; expressions belong to status and to resources"
	case strings.HasPrefix(rest, "map["):
		d.Problem = "the keys of a map can only be strings"
		d.Expected = "map[string]T"
	case strings.HasPrefix(rest, "map<"):
		d.Expected = "map[string]T"
	case spaced && typeName.MatchString(word):
		d.Offset = at + len(word)
		d.Problem = "markers are separated from the type by |"
		d.Expected = quote(word + " | " + strings.TrimSpace(more))
	case strings.HasSuffix(rest, "[]"):
		d.Expected = quote("[]" + strings.TrimSuffix(rest, "[]"))
	}
	return d
}

// trim moves both ends of text[from:to] past white space.
func trim(text string, from, to int) (int, int) {
	part := text[from:to]
	from += len(part) - len(strings.TrimLeft(part, whitespace))
	return from, max(from, to-(len(part)-len(strings.TrimRight(part, whitespace))))
}

const whitespace = " \t\r\n\v\f"

func quote(s string) string { return strconv.Quote(s) }
