// Package diag holds diagnostics as data: what is wrong with a definition, where, what was
// expected and what the author may have meant. A compiler pass adds all problems that it
// finds; none stops at the first.
//
// Pure: it decides from values alone.
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// Diagnostic is one problem, in words for users.
type Diagnostic struct {
	// Path is the field, such as spec.resources[2].template.spec.replicas.
	Path object.Path
	// Expr is the expression or field that contains the problem, without its
	// delimiters; empty if the field as a whole is wrong.
	Expr string
	// Offset is the byte in Expr at which the problem begins; meaningless without Expr.
	Offset int
	// Problem says what is wrong.
	Problem string
	// Expected says what would be right, if known.
	Expected string
	// Nearest is the known name closest to an unknown one.
	Nearest string
}

// String renders the diagnostic on one line:
//
//	spec.resources[1].template.spec.replicas: in "vpc.status.prvateSubnet" at 11: no such field; did you mean "privateSubnet"?
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.Path != "" {
		fmt.Fprintf(&b, "%s: ", d.Path)
	}
	if d.Expr != "" {
		fmt.Fprintf(&b, "in %q at %s: ", TruncateLines(d.Expr, maxExprBytes), position(d.Expr, d.Offset))
	}
	b.WriteString(d.Problem)
	if d.Expected != "" {
		fmt.Fprintf(&b, "; expected %s", d.Expected)
	}
	if d.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %q?", d.Nearest)
	}
	return b.String()
}

// maxExprBytes bounds how much of an expression a message quotes.
const maxExprBytes = 120

// It counts from 1, and includes the line if the expression has several.
func position(expr string, offset int) string {
	offset = min(max(offset, 0), len(expr))
	before := expr[:offset]
	column := offset - strings.LastIndexByte(before, '\n')
	if !strings.Contains(expr, "\n") {
		return fmt.Sprint(column)
	}
	return fmt.Sprintf("line %d:%d", strings.Count(before, "\n")+1, column)
}

// List collects diagnostics. The zero value is ready to use.
type List []Diagnostic

// Addf adds a problem with the field at path.
func (l *List) Addf(path object.Path, format string, args ...any) {
	*l = append(*l, Diagnostic{Path: path, Problem: fmt.Sprintf(format, args...)})
}

// Add adds diagnostics.
func (l *List) Add(d ...Diagnostic) { *l = append(*l, d...) }

// Below returns the diagnostics with a path in front of theirs.
func (l List) Below(prefix object.Path) List {
	out := slices.Clone(l)
	for i := range out {
		out[i].Path = prefix.Join(out[i].Path)
	}
	return out
}

// Sorted returns the diagnostics sorted by path and offset, without duplicates.
func (l List) Sorted() List {
	out := slices.Clone(l)
	slices.SortStableFunc(out, func(a, b Diagnostic) int {
		return cmp.Or(compareNatural(string(a.Path), string(b.Path)), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Problem, b.Problem))
	})
	return slices.Compact(out)
}

// [2] comes before [10].
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			if c := cmp.Or(cmp.Compare(x, y), cmp.Compare(a[:x], b[:y])); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// Err returns nil for an empty list and an *Error otherwise.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return &Error{List: l.Sorted()}
}

// Error is a list of diagnostics as a Go error.
type Error struct{ List List }

// Error joins the diagnostics, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.List))
	for i, d := range e.List {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}
