package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/espalier-dev/espalier/internal/observe"
)

// demoLines prints the demo as plain lines, one for each change.
type demoLines struct {
	to     io.Writer
	begun  time.Time // of the chapter
	before []observe.Row
	log    observe.ChangeLog
	status string
	ended  []chapterMsg
}

func (l *demoLines) handle(msg any) {
	switch msg := msg.(type) {
	case chapterMsg:
		l.chapter(msg)
	case observe.ClusterState:
		l.printChanges(msg)
	case factMsg:
		l.line("%s", msg)
	case cleaningMsg:
		fmt.Fprintln(l.to, "\nStopping the API server and removing its data")
	case endMsg:
		l.summary(msg)
	}
}

func (l *demoLines) chapter(msg chapterMsg) {
	title := chapters[msg.index].title
	switch {
	case !msg.ended:
		l.begun = time.Now()
		fmt.Fprintf(l.to, "\n[%d/%d] %s\n", msg.index+1, len(chapters), title)
		return
	case errors.Is(msg.err, errInterrupted):
		l.line("interrupted")
	case msg.err != nil:
		l.line("%s: %v", msg.outcome(), msg.err)
	default:
		l.line("done: %s", msg.outcome())
	}
	l.ended = append(l.ended, msg)
}

func (l *demoLines) line(format string, args ...any) {
	fmt.Fprintf(l.to, "%8.3f s  %s\n", time.Since(l.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (l *demoLines) printChanges(w observe.ClusterState) {
	now := time.Now()
	var rows []observe.Row
	if w.Root != nil {
		rows = observe.Rows(observe.Build(w, now), now)
	}
	l.log.FitColumns(rows)
	for _, change := range observe.Changes(l.before, rows) {
		l.line("%s", l.log.Line(change))
	}
	l.before = rows
	if status := topStatus(w.Root); status != "" && status != l.status {
		l.line("status of the top: %s", status)
		l.status = status
	}
}

func (l *demoLines) summary(msg endMsg) {
	fmt.Fprintf(l.to, "\nSummary\n")
	for _, c := range l.ended {
		fmt.Fprintf(l.to, "%8.3f s  %-29s  %s\n", c.took.Seconds(), chapters[c.index].title, c.outcome())
	}
	if msg.err == nil {
		fmt.Fprintf(l.to, "%8.3f s  in all; nothing is left behind\n", msg.took.Seconds())
	}
}
