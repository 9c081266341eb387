package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/espalier-dev/espalier/internal/observe"
)

// clock is the format of the time at the beginning of a line.
const clock = "15:04:05.000"

// treeLines prints a tree, and then a line for each change.
func treeLines(ctx context.Context, to io.Writer, states <-chan observe.ClusterState) error {
	printer := treePrinter{width: widthOf(to)}
	return forEachState(ctx, states, func(w observe.ClusterState) error {
		_, err := io.WriteString(prose(to), printer.format(w, time.Now()))
		return err
	})
}

// treePrinter formats a tree: first all of it, for a terminal of the given width, then its changes.
type treePrinter struct {
	width  int
	begun  bool
	before []observe.Row
	log    observe.ChangeLog
}

func (t *treePrinter) format(w observe.ClusterState, now time.Time) string {
	rows := rowsOf(w, now)
	t.log.FitColumns(rows)
	text := ""
	if t.begun {
		for _, change := range observe.Changes(t.before, rows) {
			text += fmt.Sprintf("%s  %s\n", now.Format(clock), t.log.Line(change))
		}
	} else {
		text = observe.Text(rows, t.width)
	}
	t.begun, t.before = true, rows
	return text
}

// treeDocuments prints a tree as JSON or YAML, one document for each change.
func treeDocuments(ctx context.Context, to io.Writer, format outputFlag, states <-chan observe.ClusterState) error {
	out := documents{to: to, format: format}
	return forEachState(ctx, states, func(w observe.ClusterState) error {
		switch {
		case w.Gone():
			return nil
		case w.AllOfKind:
			return out.write(observe.BuildAll(w, time.Now()))
		}
		return out.write(observe.Build(w, time.Now()))
	})
}
