package observe

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Change is what became of a row.
type Change struct {
	Row  Row
	Gone bool
}

// Changes lists what is different between two looks at a tree: first what is
// gone, from the bottom up, then what is new or says something else. Time alone
// changes nothing.
func Changes(before, after []Row) []Change {
	was := make(map[string]Row, len(before))
	for _, r := range before {
		was[r.Key] = r
	}
	is := make(map[string]bool, len(after))
	for _, r := range after {
		is[r.Key] = true
	}
	var out []Change
	for i := len(before) - 1; i >= 0; i-- {
		if !is[before[i].Key] {
			out = append(out, Change{Row: before[i], Gone: true})
		}
	}
	for _, r := range after {
		if old, had := was[r.Key]; !had || old.says() != r.says() {
			out = append(out, Change{Row: r})
		}
	}
	return out
}

// says is what a row tells, leaving out how long it has been so.
func (r Row) says() Row {
	r.Branch, r.Age, r.Detail = "", "", ""
	return r
}

// longest bounds what a line of a change says at its end.
const longest = 512

// Log makes lines of changes. Its columns are as wide as what it has seen by then needs, so that
// lines are in line below one another. The zero Log has seen nothing.
type Log struct{ kind, name int }

// Widths of columns that are enough for most trees.
const (
	usualKind = 18
	usualName = 16
)

// See widens the columns to rows.
func (l *Log) See(rows []Row) {
	for _, r := range rows {
		l.kind, l.name = max(l.kind, utf8.RuneCountInString(r.Kind)), max(l.name, utf8.RuneCountInString(r.called()))
	}
}

// called is the row's name, or, where it has none, whose resource it is.
func (r Row) called() string {
	if r.Full == "" && r.of != "" {
		return "of " + r.of
	}
	return r.Full
}

// Line is a change as a line.
func (l *Log) Line(c Change) string {
	l.See([]Row{c.Row})
	text := fmt.Sprintf("%-*s %-*s ", max(l.kind, usualKind), c.Row.Kind, max(l.name, usualName), c.Row.called())
	if c.Gone {
		return text + c.Row.end
	}
	text += fmt.Sprintf("%-7s %s", c.Row.Ready, c.Row.Reason)
	switch {
	case c.Row.lasting != "" && c.Row.Reason != "":
		text = strings.TrimRight(text, " ") + ": " + Cut(c.Row.lasting, longest)
	case c.Row.lasting != "": // what is told of it may be older than it is
		text += Cut(c.Row.lasting, longest)
	}
	return strings.TrimRight(text, " ")
}
