package lsp

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/authoring/language"
)

func (s *server) complete(name string, text *language.Text, checked *language.Checked, at language.Position) any {
	found := checked.Complete(name, text, at)
	out := make([]completionItem, 0, len(found))
	for i, item := range found {
		c := completionItem{
			Label: item.Label, Kind: item.Kind, Detail: item.Detail, SortText: fmt.Sprintf("%04d", i),
			TextEdit: textEdit{Range: item.Range, NewText: item.Text},
		}
		if item.Doc != "" {
			m := s.markup(item.Doc)
			c.Documentation = &m
		}
		out = append(out, c)
	}
	return out
}

func (s *server) hover(name string, text *language.Text, checked *language.Checked, at language.Position) any {
	found, of := checked.Hover(name, text, at)
	if found == "" {
		return nil
	}
	return hover{Contents: s.markup(found), Range: of}
}

func (s *server) markup(markdown string) markup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plain {
		return markup{Kind: "plaintext", Value: strings.ReplaceAll(markdown, "```\n", "")}
	}
	return markup{Kind: "markdown", Value: markdown}
}

func (s *server) definition(name string, text *language.Text, checked *language.Checked, at language.Position) any {
	out := []location{}
	for _, l := range checked.Definition(name, text, at) {
		s.mu.Lock()
		uri := uriOf(l.Name)
		if o := s.open[l.Name]; o != nil {
			uri = o.uri
		}
		s.mu.Unlock()
		out = append(out, location{URI: uri, Range: l.Range})
	}
	return out
}
