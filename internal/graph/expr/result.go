package expr

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// Absent is the result of an expression with an absent optional value. A template leaves
// the field out.
var Absent = plain.Absent

// Pending is the error of an evaluation that reads missing values. The evaluation may
// succeed when they exist.
type Pending struct {
	// Refs are the paths that are missing, sorted.
	Refs []Ref
	// Fields lists, for a template, the fields without a value and what each waits for.
	Fields []Missing
}

// Missing is a field of a template that has no value, and why: a *Pending, a
// *NeedsSkipped, a *Failure, a *LimitExceeded or a *Mismatch.
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

// Failure is the error of an evaluation that cannot succeed with the given values.
type Failure struct {
	At     object.Path
	Expr   string
	Reason error

	program *Program
}

func (f *Failure) Error() string { return pathPrefix(f.At) + fmt.Sprintf("%q: %v", f.Expr, f.Reason) }

// Redacted is the error text without values: instead of the reason it names the function that failed, and the kind of the error.
func (f *Failure) Redacted() string {
	return pathPrefix(f.At) + fmt.Sprintf("%q: %s", f.Expr, f.Kind())
}

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Reason }

// LimitExceeded is the error of an evaluation that exceeds a limit.
type LimitExceeded struct {
	At   object.Path
	Expr string
	// Limit is the name of the field of Limits, Max its value.
	Limit string
	Max   uint64
}

func (l *LimitExceeded) Error() string {
	return pathPrefix(l.At) + fmt.Sprintf("%q exceeds the limit %s of %d", l.Expr, l.Limit, l.Max)
}

func pathPrefix(path object.Path) string {
	if path == "" {
		return ""
	}
	return string(path) + ": "
}
