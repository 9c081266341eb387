package expr

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// Absent is the result of an expression whose optional value isn't there. A
// template leaves the field out.
var Absent = plain.Absent

// Pending is the error of an evaluation that reads what isn't there yet. It is
// healed by the arrival of the values it names.
type Pending struct {
	// Refs are the paths that are missing, sorted.
	Refs []Ref
	// Fields says, for a template, which of its fields wait for what.
	Fields []Missing
}

// Missing is a field of a template that has no value, and why: a *Pending, a
// *Failure, a *LimitExceeded or a *Misfit.
type Missing struct {
	At  object.Path
	Err error
}

func (p *Pending) Error() string {
	names := make([]string, len(p.Refs))
	for i, r := range p.Refs {
		names[i] = r.String()
	}
	return "waiting for " + strings.Join(names, ", ")
}

// Failure is the error of an evaluation that can't succeed with these values.
type Failure struct {
	At     object.Path
	Expr   string
	Reason error
}

func (f *Failure) Error() string { return at(f.At) + fmt.Sprintf("%q: %v", f.Expr, f.Reason) }

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Reason }

// LimitExceeded is the error of an expression that needs more than it may.
type LimitExceeded struct {
	At   object.Path
	Expr string
	// Limit is the name of the field of Limits, Max its value.
	Limit string
	Max   uint64
}

func (l *LimitExceeded) Error() string {
	return at(l.At) + fmt.Sprintf("%q exceeds the limit %s of %d", l.Expr, l.Limit, l.Max)
}

func at(path object.Path) string {
	if path == "" {
		return ""
	}
	return string(path) + ": "
}
