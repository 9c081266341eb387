package cli

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/espalier-dev/espalier/internal/observe"
)

// The sixteen colours of the terminal, which its user has chosen to be readable. No information
// is in colours alone.
var (
	bold     = lipgloss.NewStyle().Bold(true)
	faint    = lipgloss.NewStyle().Faint(true)
	ready    = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	pending  = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	failing  = lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)
	removing = lipgloss.NewStyle().Foreground(lipgloss.Color("5"))
)

// drawRows renders rows for a screen of the given size, and counts the rows that do not fit.
func drawRows(rows []observe.Row, width, height int) []string {
	cells := observe.Cells(rows, max(width-1, 0)) // writing into the last column may wrap the line
	titles := make([]string, len(cells[0]))
	for i, title := range cells[0] {
		titles[i] = strings.TrimSpace(title)
	}
	lines := []string{faint.Render(strings.TrimRight(strings.Join(cells[0], "  "), " "))}
	for i, r := range rows {
		if height > 0 && len(lines) == height-1 && i < len(rows)-1 {
			return append(lines, faint.Render(fmt.Sprintf("… and %d more", len(rows)-i)))
		}
		lines = append(lines, drawRow(r, titles, cells[i+1]))
	}
	return lines
}

// drawNotes renders the texts that the table truncates, below an empty line, as far as they fit
// below the lines that are drawn already; a height of 0 means no limit.
func drawNotes(notes []string, height, drawn int) []string {
	room := len(notes)
	if height > 0 {
		room = height - drawn - 1
	}
	if len(notes) == 0 || room < 2 {
		return nil
	}
	if room < len(notes) {
		notes = append(notes[:room-1:room-1], "…")
	}
	lines := []string{""}
	for _, note := range notes {
		if !strings.HasPrefix(note, " ") {
			note = bold.Render(note)
		}
		lines = append(lines, note)
	}
	return lines
}

// drawRow colours the cells of a row by the titles of their columns.
func drawRow(r observe.Row, titles, cells []string) string {
	tone := styleOf(r)
	out := make([]string, len(cells))
	for i, cell := range cells {
		switch title := titles[i]; {
		case title == observe.KindColumn:
			branch, rest := "", cell
			if kind, ok := strings.CutPrefix(cell, r.Branch); ok { // unless the branch itself is truncated
				branch, rest = r.Branch, kind
			}
			if !r.Exists {
				rest = faint.Render(rest)
			}
			out[i] = faint.Render(branch) + rest
		case title == observe.ReadyColumn, title == observe.ReasonColumn:
			out[i] = tone.Render(cell)
		case title == observe.AgeColumn, title == observe.NamespaceColumn, title == observe.DetailColumn && !r.NeedsAction:
			out[i] = faint.Render(cell)
		default:
			out[i] = cell
		}
	}
	return strings.Join(out, "  ")
}

func styleOf(r observe.Row) lipgloss.Style {
	switch {
	case r.NeedsAction:
		return failing
	case r.Removing:
		return removing
	case r.Ready == observe.True:
		return ready
	case r.Exists && r.Ready == observe.NotReported:
		return faint
	}
	return pending
}
