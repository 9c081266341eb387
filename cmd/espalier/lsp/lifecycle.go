package lsp

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sourcegraph/jsonrpc2"
)

// initialize answers with what the server can do.
func (s *server) initialize(_ context.Context, _ *jsonrpc2.Conn, raw json.RawMessage) (any, error) {
	var params initializeParams
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isUp, s.reread = true, true
	for _, f := range params.WorkspaceFolders {
		s.folders = append(s.folders, nameOf(f.URI))
	}
	if len(s.folders) == 0 && params.RootURI != "" {
		s.folders = []string{nameOf(params.RootURI)}
	}
	formats := params.Capabilities.TextDocument.Hover.ContentFormat
	s.plain = len(formats) > 0 && !slices.Contains(formats, "markdown")
	s.register = params.Capabilities.Workspace.DidChangeWatchedFiles.DynamicRegistration
	return initializeResult{
		ServerInfo: serverInfo{Name: "espalier", Version: s.options.Version},
		Capabilities: map[string]any{
			"positionEncoding":   "utf-16",
			"textDocumentSync":   map[string]any{"openClose": true, "change": 2}, // incremental
			"completionProvider": map[string]any{"triggerCharacters": []string{".", "{"}},
			"hoverProvider":      true,
			"definitionProvider": true,
			"workspace":          map[string]any{"workspaceFolders": map[string]any{"supported": true, "changeNotifications": true}},
		},
	}, nil
}

// initialized begins to check, and asks the editor to watch files.
func (s *server) initialized(ctx context.Context, conn *jsonrpc2.Conn, _ json.RawMessage) (any, error) {
	s.check()
	s.mu.Lock()
	register := s.register
	s.mu.Unlock()
	if !register {
		return nil, nil
	}
	watch := map[string]any{"watchers": []any{map[string]any{"globPattern": "**/*.{yaml,yml,json}"}}}
	registration := map[string]any{"id": "files", "method": "workspace/didChangeWatchedFiles", "registerOptions": watch}
	_, err := conn.DispatchCall(ctx, "client/registerCapability", map[string]any{"registrations": []any{registration}})
	return nil, err
}

func (s *server) shutdown(context.Context, *jsonrpc2.Conn, json.RawMessage) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isDown = true
	return nil, nil
}

func (s *server) exit(context.Context, *jsonrpc2.Conn, json.RawMessage) (any, error) {
	s.end()
	return nil, nil
}

func (s *server) didChangeFolders(_ context.Context, _ *jsonrpc2.Conn, raw json.RawMessage) (any, error) {
	var params foldersParams
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range params.Event.Removed {
		s.folders = slices.DeleteFunc(s.folders, func(name string) bool { return name == nameOf(f.URI) })
	}
	for _, f := range params.Event.Added {
		s.folders = append(s.folders, nameOf(f.URI))
	}
	s.reread = true
	s.check()
	return nil, nil
}

func (s *server) didChangeWatchedFiles(_ context.Context, _ *jsonrpc2.Conn, raw json.RawMessage) (any, error) {
	var params watchedFilesParams
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range params.Changes {
		if name := nameOf(c.URI); isRead(name) && within(name, s.folders) && len(s.stale) < maxFolderFiles {
			s.stale[name] = true
		}
	}
	s.check()
	return nil, nil
}
