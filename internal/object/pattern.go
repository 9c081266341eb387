package object

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Pattern selects fields of documents, each with everything below it. It has the syntax of Path, so a path from a
// message is a valid pattern; [*] matches every item of a list or every key of a map.
type Pattern struct{ steps []step }

// It leads to a field by name, by index, or to every one.
type step struct {
	name  string
	index int
	kind  stepKind
}

type stepKind int

const (
	named stepKind = iota
	indexed
	every
)

// ParsePattern parses a pattern. The error says what is wrong, and gives the right form of
// a JSON pointer or a JSONPath.
func ParsePattern(text string) (Pattern, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return Pattern{}, fmt.Errorf("is empty; name a field, such as spec.replicas")
	case strings.HasPrefix(text, "/"):
		return Pattern{}, fmt.Errorf("is a JSON pointer; write %s", pointerToPath(text))
	case strings.HasPrefix(text, "$."), strings.HasPrefix(text, "."):
		return Pattern{}, fmt.Errorf("begins at the object itself; write %s", strings.TrimLeft(text, "$."))
	}
	steps, err := parseSteps(text)
	if err != nil {
		return Pattern{}, err
	}
	return Pattern{steps}, nil
}

// pointerToPath converts a JSON pointer (RFC 6901).
func pointerToPath(pointer string) Path {
	var p Path
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		if i, err := strconv.Atoi(name); err == nil && i >= 0 {
			p = p.Index(i)
		} else {
			p = p.Field(name)
		}
	}
	return p
}

func parseSteps(text string) (steps []step, err error) {
	for rest := text; rest != ""; {
		var s step
		switch {
		case strings.HasPrefix(rest, "["):
			if s, rest, err = bracket(rest); err != nil {
				return nil, err
			}
		default:
			if len(steps) > 0 {
				if !strings.HasPrefix(rest, ".") {
					return nil, fmt.Errorf("has %q where a dot or a bracket is expected", rest)
				}
				rest = rest[1:]
			}
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			s, rest = step{name: rest[:end]}, rest[end:]
			if !plainName.MatchString(s.name) {
				return nil, fmt.Errorf("has %q for a field's name; one with other characters than letters, digits, - and _ is written in brackets, such as metadata.annotations[\"example.com/x\"]", s.name)
			}
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// bracket parses a step in brackets at the beginning of a text.
func bracket(text string) (s step, rest string, err error) {
	if strings.HasPrefix(text, `["`) {
		quoted, err := strconv.QuotedPrefix(text[1:])
		after, closed := strings.CutPrefix(text[1+len(quoted):], "]")
		if err != nil || !closed {
			return s, "", fmt.Errorf("has an unclosed bracket: %s", text)
		}
		name, err := strconv.Unquote(quoted)
		return step{name: name}, after, err
	}
	inside, after, closed := strings.Cut(text[1:], "]")
	if !closed {
		return s, "", fmt.Errorf("has an unclosed bracket: %s", text)
	}
	if inside == "*" {
		return step{kind: every}, after, nil
	}
	i, err := strconv.Atoi(inside)
	if err != nil || i < 0 {
		return s, "", fmt.Errorf("has [%s]; in brackets is an index from 0, [*] for all, or a name in quotes", inside)
	}
	return step{index: i, kind: indexed}, after, nil
}

// Covers reports whether the pattern selects a field or one above it.
func (p Pattern) Covers(field Path) bool {
	steps, err := parseSteps(string(field))
	if err != nil || len(steps) < len(p.steps) || len(p.steps) == 0 {
		return false
	}
	for i, s := range p.steps {
		if s.kind != every && s != steps[i] {
			return false
		}
	}
	return true
}

// IsThroughList reports whether the pattern selects items of a list, or every key of a map.
func (p Pattern) IsThroughList() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.kind != named })
}

// Root is the name of the top-level field that the pattern begins with.
func (p Pattern) Root() string {
	if len(p.steps) == 0 {
		return ""
	}
	return p.steps[0].name
}

// WithRoot returns the pattern with another top-level field to begin with.
func (p Pattern) WithRoot(name string) Pattern {
	if len(p.steps) == 0 {
		return p
	}
	return Pattern{append([]step{{name: name, kind: named}}, p.steps[1:]...)}
}

// Missing looks up the fields that the pattern selects in a document. If a step matches
// nothing, it returns the step's path and the names that exist instead. Open says that the
// content of a value is unknown.
func (p Pattern) Missing(document any, open func(any) bool) (at Path, instead []string, missing bool) {
	return missingIn(p.steps, document, open, "")
}

func missingIn(steps []step, value any, open func(any) bool, at Path) (Path, []string, bool) {
	if len(steps) == 0 || open(value) {
		return "", nil, false
	}
	s := steps[0]
	switch v := value.(type) {
	case map[string]any:
		if s.kind == named {
			below, ok := v[s.name]
			if !ok {
				return at.Field(s.name), keys(v), true
			}
			return missingIn(steps[1:], below, open, at.Field(s.name))
		}
		if s.kind == every && len(v) > 0 {
			return "", nil, false
		}
	case []any:
		if s.kind == indexed && s.index < len(v) {
			return missingIn(steps[1:], v[s.index], open, at.Index(s.index))
		}
		if s.kind == every && len(v) > 0 {
			return missingIn(steps[1:], v[0], open, at.Index(0))
		}
	}
	return Path(string(at) + s.String()), nil, true
}

func keys(m map[string]any) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

func (s step) String() string {
	switch s.kind {
	case every:
		return "[*]"
	case indexed:
		return "[" + strconv.Itoa(s.index) + "]"
	case named:
	}
	return "." + s.name
}
