package observe

import (
	"fmt"
	"strings"
	"time"
)

// BlockerCells lays blockers out as a table, as Cells does rows.
func BlockerCells(blockers []BlockedObject, now time.Time, width int) [][]string {
	table := blockerTable(blockers, now)
	fit(table, width)
	return table
}

func blockerTable(blockers []BlockedObject, now time.Time) [][]string {
	table := [][]string{{"OBJECT", "REASON", "SINCE", "MESSAGE"}}
	for _, b := range blockers {
		since := ""
		if !b.Since.IsZero() {
			since = Age(now.Sub(b.Since.Time))
		}
		table = append(table, []string{Printable(b.Object.String()), Printable(string(b.Reason)), since, Printable(b.Message)})
	}
	return table
}

// Text is the report for people: the progress, the blockers, and for each of them where it
// is and what can be done. With a width other than 0, texts are wrapped; commands are not, so
// that they can be copied.
func (h BlockerReport) Text(now time.Time, width int) string {
	t := blockersText{explanationText{now: now, width: width}}
	t.paragraph("", Headline(h.root, now))
	if h.Deleted == nil && len(h.Blockers) > 0 {
		t.paragraph("", "but the removal of objects that are no longer desired is blocked:")
	}
	t.blockers(h)
	t.section("No longer desired, and being removed", h.Removing)
	t.section(leftBehind, h.LeftBehind)
	return t.b.String()
}

const leftBehind = "Left behind; these may still exist"

// LeftBehindText lists what a forced deletion left behind; empty if it is nothing.
func LeftBehindText(left []BlockedObject, now time.Time, width int) string {
	t := blockersText{explanationText{now: now, width: width}}
	t.section(leftBehind, left)
	return t.b.String()
}

// blockersText writes blockers.
type blockersText struct{ explanationText }

func (t *blockersText) section(title string, list []BlockedObject) {
	if len(list) > 0 {
		t.b.WriteString("\n" + title + ":\n" + WrapTable(blockerTable(list, t.now), t.width))
	}
}

// blockers lists the blockers, and what can be done about each.
func (t *blockersText) blockers(h BlockerReport) {
	if len(h.Blockers) == 0 {
		if text := h.noBlockersText(); text != "" {
			t.paragraph("", text)
		}
		return
	}
	t.b.WriteString("\n" + WrapTable(blockerTable(h.Blockers, t.now), t.width))
	if h.Unlisted > 0 {
		fmt.Fprintf(&t.b, "and %d more\n", h.Unlisted)
	}
	for _, blocker := range h.Blockers {
		t.b.WriteString("\n")
		t.remedy(blocker)
	}
}

// noBlockersText says that no blockers are known, and why an object may stay all the same.
func (h BlockerReport) noBlockersText() string {
	switch {
	case h.Deleted == nil:
		return ""
	case h.root.remaining != "":
		return h.root.remaining
	case h.Deletion == nil && h.root.paused:
		return "nothing is deleted while it is paused; " + resumeAdvice(h.root.object())
	case h.Deletion == nil && len(h.root.Finalizers) > 0:
		return fmt.Sprintf("no blockers are known, but the controller that must remove finalizer %s might not be running", strings.Join(h.root.Finalizers, ", "))
	}
	return "no blockers are known"
}

// remedy is where an object is, and what can be done about it.
func (t *blockersText) remedy(b BlockedObject) {
	t.paragraph("", b.Object.String())
	if len(b.Path) > 0 {
		names := make([]string, len(b.Path))
		for i, o := range b.Path {
			names[i] = o.String()
		}
		t.paragraph("  ", "in "+strings.Join(names, " > "))
	}
	t.advice("", "  - ", b.Advice)
}
