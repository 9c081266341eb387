package observe

import (
	"fmt"
	"strings"
	"time"
)

// BlockerCells lays out what holds something up as a table, as Cells does rows.
func BlockerCells(blockers []Blocked, now time.Time, width int) [][]string {
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

// Text is the holdup for people: how far it is, what is in the way, and for each
// of that where it is and what can be done.
func (h Holdup) Text(now time.Time) string {
	var b strings.Builder
	b.WriteString(Headline(h.top, now) + "\n")
	if h.Deleted == nil && len(h.Blockers) > 0 {
		b.WriteString("but the removal of what nothing wants any more is held up:\n")
	}
	b.WriteString(h.Obstacles(now))
	b.WriteString(chapter("Nothing wants these any more, and they are going", h.Going, now))
	b.WriteString(LeftBehind(h.LeftBehind, now))
	return b.String()
}

// LeftBehind tells of what a deletion has let go of, if it has.
func LeftBehind(left []Blocked, now time.Time) string {
	return chapter("These were let go of, and may exist still", left, now)
}

func chapter(title string, list []Blocked, now time.Time) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%s:\n%s", title, lines(BlockerCells(list, now, 0)))
}

// Obstacles is what is in the way, and what can be done about each thing.
func (h Holdup) Obstacles(now time.Time) string {
	if len(h.Blockers) == 0 {
		return h.silence()
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

// silence is what there is to say when nothing is in the way.
func (h Holdup) silence() string {
	switch {
	case h.Deleted == nil:
		return ""
	case h.Deletion == nil && len(h.top.Finalizers) > 0:
		return fmt.Sprintf("nothing is known to hold it up, but whoever has to take %s off may not be running\n", strings.Join(h.top.Finalizers, ", "))
	}
	return "nothing is known to hold it up\n"
}

// remedy says where an object is, and what can be done about it.
func (b Blocked) remedy() string {
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
