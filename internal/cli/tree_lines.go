package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/espalier-dev/espalier/internal/view"
)

// clock is how lines tell the time.
const clock = "15:04:05.000"

// treeLines prints a tree, and then a line for each thing that changes in it.
func treeLines(ctx context.Context, to io.Writer, worlds <-chan view.World) error {
	var before []view.Row
	first := true
	return eachWorld(ctx, worlds, func(w view.World) error {
		now := time.Now()
		var rows []view.Row
		if w.Root != nil {
			rows = view.Rows(view.Build(w, now), now)
		}
		text := ""
		if first {
			text = view.Table(rows, 0)
		} else {
			for _, change := range view.Changes(before, rows) {
				text += fmt.Sprintf("%s  %s\n", now.Format(clock), change)
			}
		}
		before, first = rows, false
		_, err := io.WriteString(to, text)
		return err
	})
}

// treeDocuments prints a tree as JSON, one line each time that something changes.
func treeDocuments(ctx context.Context, to io.Writer, worlds <-chan view.World) error {
	return eachWorld(ctx, worlds, func(w view.World) error {
		if w.Root == nil {
			return nil
		}
		var line bytes.Buffer
		if err := json.Compact(&line, view.Build(w, time.Now()).JSON()); err != nil {
			return err
		}
		_, err := fmt.Fprintln(to, line.String())
		return err
	})
}

// eachWorld calls what for each world, until one without a root.
func eachWorld(ctx context.Context, worlds <-chan view.World, what func(view.World) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case w := <-worlds:
			if err := what(w); err != nil || w.Root == nil {
				return err
			}
		}
	}
}
