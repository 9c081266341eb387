package lsp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/espalier-dev/espalier/internal/authoring/language"
)

func (s *server) didOpen(_ context.Context, _ *jsonrpc2.Conn, raw json.RawMessage) (any, error) {
	var params didOpenParams
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, err
	}
	d := params.TextDocument
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxOpenDocuments {
		return nil, fmt.Errorf("more than %d documents are open; %s is not checked", maxOpenDocuments, d.URI)
	}
	s.open[nameOf(d.URI)] = &document{uri: d.URI, version: d.Version, text: language.NewText(d.Text)}
	s.check()
	return nil, nil
}

// didChange applies changes, each to the result of the one before. A change of an older version is left out.
func (s *server) didChange(_ context.Context, _ *jsonrpc2.Conn, raw json.RawMessage) (any, error) {
	var params didChangeParams
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, err
	}
	name := nameOf(params.TextDocument.URI)
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.open[name]
	switch {
	case d == nil:
		return nil, fmt.Errorf("%s is not open", params.TextDocument.URI)
	case params.TextDocument.Version <= d.version:
		return nil, fmt.Errorf("version %d of %s is not newer than %d", params.TextDocument.Version, d.uri, d.version)
	}
	text := d.text
	for _, c := range params.ContentChanges {
		if c.Range == nil {
			text = language.NewText(c.Text)
		} else {
			text = text.Replace(*c.Range, c.Text)
		}
	}
	s.open[name] = &document{uri: d.uri, version: params.TextDocument.Version, text: text}
	s.check()
	return nil, nil
}

// didClose forgets a text: its file counts again.
func (s *server) didClose(ctx context.Context, conn *jsonrpc2.Conn, raw json.RawMessage) (any, error) {
	var params didOpenParams
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, err
	}
	name := nameOf(params.TextDocument.URI)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, name)
	if within(name, s.folders) {
		s.stale[name] = true
	}
	s.check()
	return nil, conn.Notify(ctx, "textDocument/publishDiagnostics", publishDiagnosticsParams{URI: params.TextDocument.URI, Diagnostics: []diagnostic{}})
}
