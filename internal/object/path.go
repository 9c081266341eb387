package object

import (
	"regexp"
	"strconv"
	"strings"
)

// Path is the path of a field in a document, as users write it:
// spec.resources[2].template.metadata.labels["app.kubernetes.io/name"]. The empty path is
// the document itself.
type Path string

var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]*$`)

// Field returns the path of the named field below p. A name with special characters, such
// as a label key, is quoted.
func (p Path) Field(names ...string) Path {
	var b strings.Builder
	b.WriteString(string(p))
	for _, name := range names {
		switch {
		case !plainName.MatchString(name):
			b.WriteString("[" + strconv.Quote(name) + "]")
		case b.Len() == 0:
			b.WriteString(name)
		default:
			b.WriteString("." + name)
		}
	}
	return Path(b.String())
}

// Index returns the path of the i-th item of the list at p.
func (p Path) Index(i int) Path {
	return p + Path("["+strconv.Itoa(i)+"]")
}

// Join returns the path of what has a path in p.
func (p Path) Join(below Path) Path {
	switch {
	case p == "" || below == "" || below[0] == '[':
		return p + below
	default:
		return p + "." + below
	}
}

func (p Path) String() string { return string(p) }

// Steps returns the path of what is below this one; each step is a string for a field, or an int for an item of a list, as Segments returns
// them.
func (p Path) Steps(steps ...any) Path {
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			p = p.Field(step)
		case int:
			p = p.Index(step)
		}
	}
	return p
}

// Segments splits the path into its steps: a string for a field, an int for an item of a
// list. It returns nil for the empty path, and for a text that is not a path.
func (p Path) Segments() []any {
	steps, err := parseSteps(string(p))
	if err != nil {
		return nil
	}
	out := make([]any, len(steps))
	for i, s := range steps {
		switch s.kind {
		case named:
			out[i] = s.name
		case indexed:
			out[i] = s.index
		case every:
			return nil
		}
	}
	return out
}
