package observe

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Change is a row that is new or different, or that is gone.
type Change struct {
	Row  Row
	Gone bool
}

// Changes lists the differences between two states of a tree: first the rows that are gone,
// from the bottom up, then those that are new or different. Ages alone make no difference.
func Changes(before, after []Row) []Change {
	was := make(map[string]Row, len(before))
	for _, r := range before {
		was[r.Key] = r
	}
	is, stays := make(map[string]bool, len(after)), make(map[string]bool, len(after))
	for _, r := range after {
		is[r.Key], stays[r.Key] = true, !r.Removing
	}
	var out []Change
	for i := len(before) - 1; i >= 0; i-- {
		key := before[i].Key
		if above := key[:max(strings.LastIndex(key, "/"), 0)]; before[i].isDecided && !stays[above] {
			continue // the tree of an instance that is being deleted has objects only
		}
		if !is[key] {
			out = append(out, Change{Row: before[i], Gone: true})
		}
	}
	for _, r := range after {
		if old, existed := was[r.Key]; !existed || old.withoutTimes() != r.withoutTimes() {
			out = append(out, Change{Row: r})
		}
	}
	return out
}

// withoutTimes is a row without what depends on its age or its place in the drawing.
func (r Row) withoutTimes() Row {
	r.Branch, r.Age, r.Detail = "", "", ""
	return r
}

// maxChangeText bounds the detail at the end of a line, in characters.
const maxChangeText = 512

// ChangeLog formats changes as lines. Its columns are as wide as the widest row so far, so
// that the lines align. The zero value is ready to use.
type ChangeLog struct{ kind, name int }

// Least widths of columns: enough for most trees.
const (
	minKindWidth = 18
	minNameWidth = 16
)

// FitColumns widens the columns so that they fit rows.
func (l *ChangeLog) FitColumns(rows []Row) {
	for _, r := range rows {
		l.kind, l.name = max(l.kind, utf8.RuneCountInString(r.Kind)), max(l.name, utf8.RuneCountInString(r.displayName()))
	}
}

// displayName is the row's name or, if it has none, that of the object above.
func (r Row) displayName() string {
	if r.QualifiedName == "" && r.parent != "" {
		return "of " + r.parent
	}
	return r.QualifiedName
}

// Line formats a change as a line.
func (l *ChangeLog) Line(c Change) string {
	l.FitColumns([]Row{c.Row})
	text := fmt.Sprintf("%-*s %-*s ", max(l.kind, minKindWidth), c.Row.Kind, max(l.name, minNameWidth), c.Row.displayName())
	if c.Gone {
		return text + c.Row.goneText
	}
	text += fmt.Sprintf("%-7s %s", c.Row.Ready, c.Row.Reason)
	switch {
	case c.Row.timelessDetail != "" && c.Row.Reason != "":
		text = strings.TrimRight(text, " ") + ": " + Truncate(c.Row.timelessDetail, maxChangeText)
	case c.Row.timelessDetail != "": // the status above may be older than the object
		text += Truncate(c.Row.timelessDetail, maxChangeText)
	}
	return strings.TrimRight(text, " ")
}
