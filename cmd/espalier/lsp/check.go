package lsp

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/espalier-dev/espalier/internal/authoring/language"
)

// check asks for a check.
func (s *server) check() {
	select {
	case s.changed <- struct{}{}:
	default: // one is asked for already
	}
}

// checkChanges checks the texts when they have not changed for a while, until the context ends. One check runs at a time: changes during a check
// wait for its end.
func (s *server) checkChanges(ctx context.Context, conn *jsonrpc2.Conn) {
	var d disk
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
		if !s.waitForQuiet(ctx) {
			return
		}
		s.checkNow(ctx, conn, &d)
	}
}

// waitForQuiet waits until nothing changes for the quiet time; false if the context ends.
func (s *server) waitForQuiet(ctx context.Context) bool {
	timer := time.NewTimer(quietTime)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-s.changed:
			timer.Reset(quietTime)
		case <-timer.C:
			return true
		}
	}
}

// checkNow reads the files that have changed, checks all texts, and publishes the problems of those that are open.
func (s *server) checkNow(ctx context.Context, conn *jsonrpc2.Conn, d *disk) {
	s.mu.Lock()
	reread, stale, folders := s.reread, s.stale, s.folders
	s.reread, s.stale = false, map[string]bool{}
	earlier := s.checked
	s.mu.Unlock()
	var err error
	if reread {
		err = d.read(folders)
	} else {
		for name := range stale {
			if addErr := d.add(name); addErr != nil {
				err = addErr
			}
		}
	}
	if err != nil {
		s.log.Print(err)
	}
	s.mu.Lock()
	open := maps.Clone(s.open)
	s.mu.Unlock()
	checked := language.Check(earlier, d.withOpen(open), s.options.Language)
	s.mu.Lock()
	s.checked = checked
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(open)) {
		s.publish(ctx, conn, name, open[name], checked)
	}
}

// publish tells the editor the problems of a text, if it is still the one that is open.
func (s *server) publish(ctx context.Context, conn *jsonrpc2.Conn, name string, o *document, checked *language.Checked) {
	params := publishDiagnosticsParams{URI: o.uri, Version: &o.version, Diagnostics: []diagnostic{}}
	for _, d := range checked.Diagnostics(name) {
		params.Diagnostics = append(params.Diagnostics, diagnostic{Range: d.Range, Severity: d.Severity, Source: "espalier", Message: d.Message})
	}
	s.mu.Lock()
	defer s.mu.Unlock() // so that a document is not closed before its problems are published
	if s.open[name] != o {
		return
	}
	if err := conn.Notify(ctx, "textDocument/publishDiagnostics", params); err != nil && ctx.Err() == nil {
		s.log.Print(err)
	}
}
