package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/espalier-dev/espalier/internal/observe"
)

// clock is the format of the time at the beginning of a line.
const clock = "15:04:05.000"

// treeLines prints a tree, and then a line for each change.
func treeLines(ctx context.Context, to io.Writer, states <-chan observe.ClusterState) error {
	var printer treePrinter
	return forEachState(ctx, states, func(w observe.ClusterState) error {
		_, err := io.WriteString(to, printer.format(w, time.Now()))
		return err
	})
}

// treePrinter formats a tree: first all of it, then its changes.
type treePrinter struct {
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
		text = observe.Table(rows, 0)
	}
	t.begun, t.before = true, rows
	return text
}

// treeDocuments prints a tree as JSON, one line for each change.
func treeDocuments(ctx context.Context, to io.Writer, states <-chan observe.ClusterState) error {
	out := documents{to: to}
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

// documents prints values as JSON, each on one line, and no value twice in a row.
type documents struct {
	to   io.Writer
	last []byte
}

func (d *documents) write(v any) error {
	var line bytes.Buffer
	document := json.NewEncoder(&line)
	document.SetEscapeHTML(false) // people read messages too
	if err := document.Encode(v); err != nil || bytes.Equal(line.Bytes(), d.last) {
		return err
	}
	d.last = line.Bytes()
	_, err := d.to.Write(d.last)
	return err
}
