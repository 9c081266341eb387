package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// marker is one name=value after a type, with the offsets of both.
type marker struct {
	name    string
	at      int
	value   string
	valueAt int
}

// parseField parses the schema of a field written as text: a type and, after a
// single |, the markers.
func (p *parser) parseField(text string, at object.Path, depth int) (*extv1.JSONSchemaProps, bool) {
	if len(text) > maxFieldBytes {
		p.problems.Addf(at, "the SimpleSchema of the field is too long: %d bytes; at most %d are allowed", len(text), maxFieldBytes)
		return anything(), false
	}
	if !utf8.ValidString(text) {
		p.problems.Addf(at, "the SimpleSchema of the field is not valid UTF-8")
		return anything(), false
	}
	end := strings.IndexByte(text, '|')
	var markers []marker
	if end < 0 {
		end = len(text)
	} else {
		var faults diag.List
		markers, faults = scanMarkers(text, end+1)
		p.report(at, text, faults...)
	}
	t, fault := readType(text, end)
	if fault != nil {
		p.report(at, text, *fault)
	}
	s, required := p.schemaOf(t, text, at, depth)
	d := draft{schema: s, required: required, typ: t, given: map[string]marker{}}
	p.report(at, text, d.applyMarkers(markers)...)
	for _, ignored := range d.ignored {
		ignored.Path, ignored.Expr = at, text
		p.ignored.Add(ignored)
	}
	if d.scaled {
		p.markScaled(text, at, d.given["scale"])
	}
	return d.schema, d.required
}

// markScaled refuses the marker in types: a field of one can be in a list, where the API server does not find it.
func (p *parser) markScaled(text string, at object.Path, m marker) {
	var fault *diag.Diagnostic
	if len(p.resolving) > 0 {
		fault = &diag.Diagnostic{Problem: `marker "scale" does not apply to a type`, Expected: "it on a field of the spec"}
	} else if p.scaled != nil {
		fault = p.scaled(at)
	}
	if fault != nil {
		fault.Offset = m.at
		p.report(at, text, *fault)
	}
}

// scanMarkers reads the markers of a field from the given offset to its end. It reports
// and skips invalid parts.
func scanMarkers(text string, from int) (markers []marker, faults diag.List) {
	at, _ := trim(text, from, len(text))
	for at < len(text) {
		if text[at] == '|' {
			faults.Add(diag.Diagnostic{Offset: at, Problem: "there is a second |", Expected: "markers separated by spaces"})
			at++
		} else if m, end, fault := scanMarker(text, at); fault != nil {
			faults.Add(*fault)
			at = end
		} else {
			markers = append(markers, m)
			at = end
		}
		at, _ = trim(text, at, len(text))
	}
	return markers, faults
}

// scanMarker reads the marker that begins at from, and returns its end.
//
// A value ends at white space outside of quotes and brackets, so defaults can be JSON and rules can be sentences.
func scanMarker(text string, from int) (marker, int, *diag.Diagnostic) {
	m := marker{at: from}
	m.name = wordAt(text, from)
	at, _ := trim(text, from+len(m.name), len(text))
	if at == len(text) || text[at] != '=' {
		if m.name == "scale" { // as kro's proposal writes it
			m.value, m.valueAt = "true", from
			return m, from + len(m.name), nil
		}
		fault := missingValue(m)
		return m, at, &fault
	}
	m.valueAt = at + 1
	end, fault := valueEnd(text, m.valueAt)
	if fault != nil {
		return m, end, fault
	}
	m.value = unquote(text[m.valueAt:end])
	if m.name == "" {
		return m, end, &diag.Diagnostic{Offset: m.at, Problem: "a marker's name is missing before ="}
	}
	if apart, from := detachedValue(text, end); end == m.valueAt && apart != "" {
		end, fault = valueEnd(text, from)
		if fault == nil {
			fault = &diag.Diagnostic{
				Offset: m.valueAt, Problem: fmt.Sprintf("white space separates marker %q from its value", m.name), Expected: m.name + "=" + apart,
			}
		}
	}
	return m, end, fault
}

// wordAt is the text at from, up to white space, = or |.
func wordAt(text string, from int) string {
	rest := text[from:]
	if end := strings.IndexAny(rest, whitespace+"=|"); end >= 0 {
		return rest[:end]
	}
	return rest
}

// detachedValue returns the word after the white space at from if it is not a marker, and
// its offset.
func detachedValue(text string, from int) (string, int) {
	from, _ = trim(text, from, len(text))
	apart := wordAt(text, from)
	if next, _ := trim(text, from+len(apart), len(text)); next < len(text) && text[next] == '=' {
		return "", from
	}
	return apart, from
}

func missingValue(m marker) diag.Diagnostic {
	d := diag.Diagnostic{Offset: m.at, Problem: fmt.Sprintf("marker %q has no value", m.name), Expected: "name=value"}
	if _, known := markerRules[m.name]; known {
		d.Expected = m.name + "=" + example(m.name)
	} else {
		d.Nearest = nearestMarker(m.name)
	}
	return d
}

func example(name string) string {
	if slices.Contains([]string{"required", "immutable", "scale", "uniqueItems"}, name) {
		return "true"
	}
	return "value"
}

func valueEnd(text string, from int) (int, *diag.Diagnostic) {
	var open []int
	quoted := -1
	for at := from; at < len(text); at++ {
		c := text[at]
		switch {
		case quoted >= 0 && c == '\\':
			at++
		case c == '"' && quoted >= 0:
			quoted = -1
		case quoted >= 0:
		case c == '"':
			quoted = at
		case c == '{' || c == '[':
			open = append(open, at)
		case (c == '}' || c == ']') && len(open) == 0:
			end := at + 1
			for end < len(text) && !strings.ContainsRune(whitespace, rune(text[end])) {
				end++
			}
			return end, &diag.Diagnostic{Offset: at, Problem: fmt.Sprintf("%q has no opening bracket", c)}
		case c == '}' || c == ']':
			open = open[:len(open)-1]
		case strings.ContainsRune(whitespace, rune(c)) && len(open) == 0:
			return at, nil
		}
	}
	switch {
	case quoted >= 0:
		return len(text), &diag.Diagnostic{Offset: quoted, Problem: "the quote is not closed"}
	case len(open) > 0:
		return len(text), &diag.Diagnostic{Offset: open[0], Problem: fmt.Sprintf("%q is not closed", text[open[0]])}
	}
	return len(text), nil
}

// unquote removes the quotes of a quoted value. Inside, a backslash escapes a quote and itself; before any other
// character it stays, so patterns need no escaping.
func unquote(value string) string {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(value[1 : len(value)-1])
}
