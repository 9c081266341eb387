// Package source reads YAML files and knows the place of each field: a problem with a field,
// or with a character of an expression in it, becomes a line and a column.
//
// Begin with Parse; Document.Range and Document.RangeOf have the places.
//
// Pure: it decides from values alone.
package source

import "fmt"

// Position is a place in a file. Both numbers begin at 1; a column counts characters.
type Position struct{ Line, Column int }

// Before reports whether p comes before q in the same file.
func (p Position) Before(q Position) bool {
	return p.Line < q.Line || p.Line == q.Line && p.Column < q.Column
}

// Range is a part of a file; End is the place after its last character.
type Range struct{ Start, End Position }

// Contains reports whether the position is in the range, or at its end.
func (r Range) Contains(p Position) bool { return !p.Before(r.Start) && !r.End.Before(p) }

// Problem is something wrong in a file that cannot be read.
type Problem struct {
	Range   Range
	Message string
}

func (p Problem) String() string {
	return fmt.Sprintf("%d:%d: %s", p.Range.Start.Line, p.Range.Start.Column, p.Message)
}
