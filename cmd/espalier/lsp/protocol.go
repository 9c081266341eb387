package lsp

import "github.com/espalier-dev/espalier/internal/authoring/language"

// These types are the part of the protocol that the server uses.

type initializeParams struct {
	RootURI          string   `json:"rootUri"`
	WorkspaceFolders []folder `json:"workspaceFolders"`
	Capabilities     struct {
		Workspace struct {
			DidChangeWatchedFiles struct {
				DynamicRegistration bool `json:"dynamicRegistration"`
			} `json:"didChangeWatchedFiles"`
		} `json:"workspace"`
		TextDocument struct {
			Hover struct {
				ContentFormat []string `json:"contentFormat"`
			} `json:"hover"`
		} `json:"textDocument"`
	} `json:"capabilities"`
}

type folder struct {
	URI string `json:"uri"`
}

type initializeResult struct {
	Capabilities map[string]any `json:"capabilities"`
	ServerInfo   serverInfo     `json:"serverInfo"`
}

type serverInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type textDocument struct {
	URI        string `json:"uri"`
	LanguageID string `json:"languageId"`
	Version    int    `json:"version"`
	Text       string `json:"text"`
}

type didOpenParams struct {
	TextDocument textDocument `json:"textDocument"`
}

type didChangeParams struct {
	TextDocument   textDocument `json:"textDocument"`
	ContentChanges []struct {
		Range *language.Range `json:"range"`
		Text  string          `json:"text"`
	} `json:"contentChanges"`
}

type positionParams struct {
	TextDocument textDocument      `json:"textDocument"`
	Position     language.Position `json:"position"`
}

type watchedFilesParams struct {
	Changes []struct {
		URI string `json:"uri"`
	} `json:"changes"`
}

type foldersParams struct {
	Event struct {
		Added, Removed []folder
	} `json:"event"`
}

type publishDiagnosticsParams struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type diagnostic struct {
	Range    language.Range    `json:"range"`
	Severity language.Severity `json:"severity"`
	Source   string            `json:"source"`
	Message  string            `json:"message"`
}

type completionItem struct {
	Label         string            `json:"label"`
	Kind          language.ItemKind `json:"kind"`
	Detail        string            `json:"detail,omitempty"`
	Documentation *markup           `json:"documentation,omitempty"`
	SortText      string            `json:"sortText"`
	TextEdit      textEdit          `json:"textEdit"`
}

type textEdit struct {
	Range   language.Range `json:"range"`
	NewText string         `json:"newText"`
}

type markup struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

type hover struct {
	Contents markup         `json:"contents"`
	Range    language.Range `json:"range"`
}

type location struct {
	URI   string         `json:"uri"`
	Range language.Range `json:"range"`
}
