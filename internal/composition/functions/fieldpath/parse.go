// Package fieldpath reads and writes fields of objects by field paths with the syntax of
// Crossplane: spec.items[0].name, metadata.annotations[example.org/name],
// metadata.labels['app.kubernetes.io/name'], and spec.items[*].name for several fields.
//
// Pure: it decides from values alone.
package fieldpath

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxIndex is the largest index that a value can be written at.
const MaxIndex = 1024

// maxLength and maxSegments bound a path.
const (
	maxLength   = 4096
	maxSegments = 100
)

// Segment is one step of a path: a field, or an item of a list.
type Segment struct {
	Field string
	// Index is the item, where IsIndex says that the segment is one.
	Index   int
	IsIndex bool
}

const wildcard = "*"

// IsWildcard reports whether the segment matches all fields or items.
func (s Segment) IsWildcard() bool { return !s.IsIndex && s.Field == wildcard }

// Path is the path of a field in an object. The empty path is the object itself.
type Path []Segment

// String formats the path so that Parse can read it, if that is possible.
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		switch {
		case s.IsIndex:
			fmt.Fprintf(&b, "[%d]", s.Index)
		case s.Field == wildcard || strings.Contains(s.Field, "."):
			b.WriteString("[" + s.Field + "]")
		default:
			b.WriteString("." + s.Field)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// Parse parses a path. In brackets, a number without quotes is an index, and everything else
// is a field. Quotes around a field are not part of its name.
func Parse(text string) (Path, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("the path has %d bytes, over the limit of %d", len(text), maxLength)
	}
	var path Path
	for at := 0; at < len(text); {
		var segment Segment
		var err error
		segment, at, err = parseSegment(text, at)
		if err != nil {
			return nil, fmt.Errorf("cannot parse path %q: %w", text, err)
		}
		if path = append(path, segment); len(path) > maxSegments {
			return nil, fmt.Errorf("the path has more than %d segments", maxSegments)
		}
	}
	return path, nil
}

// parseSegment also returns the offset of the next segment.
func parseSegment(text string, at int) (Segment, int, error) {
	if text[at] == '[' {
		return parseBracketed(text, at)
	}
	if text[at] == '.' {
		if at == 0 || at == len(text)-1 {
			return Segment{}, 0, unexpectedError(text, at)
		}
		at++
	}
	end := at + strings.IndexAny(text[at:]+".", ".[]")
	if end < len(text) && text[end] == ']' || end == at {
		return Segment{}, 0, unexpectedError(text, end)
	}
	return fieldSegment(text[at:end]), end, nil
}

func parseBracketed(text string, at int) (Segment, int, error) {
	inside, _, ok := strings.Cut(text[at+1:], "]")
	if !ok {
		return Segment{}, 0, fmt.Errorf("unterminated '[' at position %d", at)
	}
	if inside == "" {
		return Segment{}, 0, unexpectedError(text, at+1)
	}
	if i := strings.IndexByte(inside, '['); i >= 0 {
		return Segment{}, 0, unexpectedError(text, at+1+i)
	}
	end := at + len(inside) + 2 // a field may follow without a period
	if i, err := strconv.ParseUint(inside, 10, 32); err == nil {
		return Segment{Index: int(i), IsIndex: true}, end, nil
	}
	return fieldSegment(inside), end, nil
}

func fieldSegment(name string) Segment { return Segment{Field: strings.Trim(name, `'"`)} }

func unexpectedError(text string, at int) error {
	return fmt.Errorf("unexpected %q at position %d", text[at], at)
}

// NotFoundError is returned when an object has no such field or item, but could have one.
type NotFoundError struct {
	message string
	null    bool // the path goes through null
}

func (e *NotFoundError) Error() string { return e.message }

// IsNotFound reports whether an error is a NotFoundError.
func IsNotFound(err error) bool {
	var missing *NotFoundError
	return errors.As(err, &missing)
}

// isThroughNull is for a NotFoundError of a path through null.
func isThroughNull(err error) bool {
	var missing *NotFoundError
	return errors.As(err, &missing) && missing.null
}
