package observe

import (
	"fmt"
	"strings"
	"time"
)

// BlockerCells lays blockers out as a table, as Cells does rows.
func BlockerCells(blockers []BlockedObject, now time.Time, width int) [][]string {
	table := [][]string{{"OBJECT", "REASON", "SINCE", "MESSAGE"}}
	for _, b := range blockers {
		since := ""
		if !b.Since.IsZero() {
			since = Age(now.Sub(b.Since.Time))
		}
		table = append(table, []string{Printable(b.Object.String()), Printable(string(b.Reason)), since, Printable(b.Message)})
	}
	fit(table, width)
	return table
}

// Text is the report for people: the progress, the blockers, and for each of them where it
// is and what can be done.
func (h BlockerReport) Text(now time.Time) string {
	var b strings.Builder
	b.WriteString(Headline(h.root, now) + "\n")
	if h.Deleted == nil && len(h.Blockers) > 0 {
		b.WriteString("but the removal of objects that are no longer desired is blocked:\n")
	}
	b.WriteString(h.BlockersText(now))
	b.WriteString(section("No longer desired, and being removed", h.Removing, now))
	b.WriteString(LeftBehindText(h.LeftBehind, now))
	return b.String()
}

// LeftBehindText lists what a forced deletion left behind; empty if it is nothing.
func LeftBehindText(left []BlockedObject, now time.Time) string {
	return section("Left behind; these may still exist", left, now)
}

func section(title string, list []BlockedObject, now time.Time) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%s:\n%s", title, lines(BlockerCells(list, now, 0)))
}

// BlockersText lists the blockers, and what can be done about each.
func (h BlockerReport) BlockersText(now time.Time) string {
	if len(h.Blockers) == 0 {
		return h.noBlockersText()
	}
	var b strings.Builder
	b.WriteString("\n" + lines(BlockerCells(h.Blockers, now, 0)))
	if h.Unlisted > 0 {
		fmt.Fprintf(&b, "and %d more\n", h.Unlisted)
	}
	for _, blocker := range h.Blockers {
		b.WriteString("\n" + blocker.remedy())
	}
	return b.String()
}

// noBlockersText says that no blockers are known, and why an object may stay all the same.
func (h BlockerReport) noBlockersText() string {
	switch {
	case h.Deleted == nil:
		return ""
	case h.Deletion == nil && len(h.root.Finalizers) > 0:
		return fmt.Sprintf("no blockers are known, but the controller that must remove finalizer %s may not be running\n", strings.Join(h.root.Finalizers, ", "))
	}
	return "no blockers are known\n"
}

// remedy is where an object is, and what can be done about it.
func (b BlockedObject) remedy() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", Printable(b.Object.String()))
	if len(b.Path) > 0 {
		names := make([]string, len(b.Path))
		for i, o := range b.Path {
			names[i] = o.String()
		}
		fmt.Fprintf(&out, "  in %s\n", Printable(strings.Join(names, " > ")))
	}
	for _, advice := range b.Advice {
		fmt.Fprintf(&out, "  - %s\n", Printable(advice))
	}
	return out.String()
}
