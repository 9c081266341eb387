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

// clock is how lines tell the time.
const clock = "15:04:05.000"

// treeLines prints a tree, and then a line for each thing that changes in it.
func treeLines(ctx context.Context, to io.Writer, worlds <-chan observe.World) error {
	var teller treeTeller
	return eachWorld(ctx, worlds, func(w observe.World) error {
		_, err := io.WriteString(to, teller.tell(w, time.Now()))
		return err
	})
}

// treeTeller tells a tree in lines: all of it, and from then on what changes.
type treeTeller struct {
	begun  bool
	before []observe.Row
	log    observe.Log
}

func (t *treeTeller) tell(w observe.World, now time.Time) string {
	rows := rowsOf(w, now)
	t.log.See(rows)
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

// treeDocuments prints a tree as JSON, one line each time that something changes.
func treeDocuments(ctx context.Context, to io.Writer, worlds <-chan observe.World) error {
	out := documents{to: to}
	return eachWorld(ctx, worlds, func(w observe.World) error {
		switch {
		case w.Gone():
			return nil
		case w.Many:
			return out.write(observe.BuildAll(w, time.Now()))
		}
		return out.write(observe.Build(w, time.Now()))
	})
}

// documents prints values as JSON, each on one line, and none twice in a row.
type documents struct {
	to   io.Writer
	last []byte
}

func (d *documents) write(what any) error {
	var line bytes.Buffer
	document := json.NewEncoder(&line)
	document.SetEscapeHTML(false) // people read messages too
	if err := document.Encode(what); err != nil || bytes.Equal(line.Bytes(), d.last) {
		return err
	}
	d.last = line.Bytes()
	_, err := d.to.Write(d.last)
	return err
}
