// Package fieldpath reads and writes fields of objects by paths as Crossplane's functions
// know them: spec.items[0].name, metadata.annotations[example.org/name],
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

// every is the field that stands for all fields or items.
const every = "*"

// Path is a field's place in an object. The empty path is the object itself.
type Path []Segment

// String writes the path in such a way that it can be read again, if that is possible.
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		switch {
		case s.IsIndex:
			fmt.Fprintf(&b, "[%d]", s.Index)
		case s.Field == every || strings.Contains(s.Field, "."):
			b.WriteString("[" + s.Field + "]")
		default:
			b.WriteString("." + s.Field)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// Parse reads a path. Between brackets, a number that has no quotes is an index, and
// everything else a field. Quotes around a field are not part of its name.
func Parse(text string) (Path, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("the path has %d bytes, of %d allowed", len(text), maxLength)
	}
	var path Path
	for at := 0; at < len(text); {
		var segment Segment
		var err error
		segment, at, err = step(text, at)
		if err != nil {
			return nil, fmt.Errorf("cannot parse path %q: %w", text, err)
		}
		if path = append(path, segment); len(path) > maxSegments {
			return nil, fmt.Errorf("the path has more than %d segments", maxSegments)
		}
	}
	return path, nil
}

// step reads the segment that begins at a byte, and says where the next one does.
func step(text string, at int) (Segment, int, error) {
	if text[at] == '[' {
		return bracketed(text, at)
	}
	if text[at] == '.' {
		if at == 0 || at == len(text)-1 {
			return Segment{}, 0, unexpected(text, at)
		}
		at++
	}
	end := at + strings.IndexAny(text[at:]+".", ".[]")
	if end < len(text) && text[end] == ']' || end == at {
		return Segment{}, 0, unexpected(text, end)
	}
	return field(text[at:end]), end, nil
}

func bracketed(text string, at int) (Segment, int, error) {
	inside, _, ok := strings.Cut(text[at+1:], "]")
	if !ok {
		return Segment{}, 0, fmt.Errorf("unterminated '[' at position %d", at)
	}
	if inside == "" {
		return Segment{}, 0, unexpected(text, at+1)
	}
	if i := strings.IndexByte(inside, '['); i >= 0 {
		return Segment{}, 0, unexpected(text, at+1+i)
	}
	end := at + len(inside) + 2 // what follows without a period is a field all the same
	if i, err := strconv.ParseUint(inside, 10, 32); err == nil {
		return Segment{Index: int(i), IsIndex: true}, end, nil
	}
	return field(inside), end, nil
}

func field(name string) Segment { return Segment{Field: strings.Trim(name, `'"`)} }

func unexpected(text string, at int) error {
	return fmt.Errorf("unexpected %q at position %d", text[at], at)
}

// NotFound says that an object has no such field or item, though it could have.
type NotFound struct {
	message string
	null    bool // a path that leads there goes through null
}

func (e *NotFound) Error() string { return e.message }

// IsNotFound says whether an error is because of a field or item that is not there.
func IsNotFound(err error) bool {
	var missing *NotFound
	return errors.As(err, &missing)
}

// throughNull says whether an error is because of a path that goes through null.
func throughNull(err error) bool {
	var missing *NotFound
	return errors.As(err, &missing) && missing.null
}
