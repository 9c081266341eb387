package view

import (
	"fmt"
	"strings"
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
const longest = 160

// String is the change as a line, its columns wide enough for most trees.
func (c Change) String() string {
	if c.Gone {
		return fmt.Sprintf("%-18s %-16s %s", c.Row.Kind, c.Row.Name, c.Row.end)
	}
	text := fmt.Sprintf("%-18s %-16s %-7s %s", c.Row.Kind, c.Row.Name, c.Row.Ready, c.Row.Reason)
	switch {
	case c.Row.lasting != "" && c.Row.Reason != "":
		text = strings.TrimRight(text, " ") + ": " + Cut(c.Row.lasting, longest)
	case c.Row.lasting != "": // what is told of it may be older than it is
		text += Cut(c.Row.lasting, longest)
	}
	return strings.TrimRight(text, " ")
}
