package cli

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/espalier-dev/espalier/internal/observe"
)

// The terminal's own sixteen colours: its owner has chosen them to be readable
// on its background, light or dark. What is said in colour is said in words too.
var (
	bold  = lipgloss.NewStyle().Bold(true)
	quiet = lipgloss.NewStyle().Faint(true)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	soon  = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)
	going = lipgloss.NewStyle().Foreground(lipgloss.Color("5"))
)

// drawRows renders rows for a screen of the given size; what doesn't fit is
// counted.
func drawRows(rows []observe.Row, width, height int) []string {
	cells := observe.Cells(rows, max(width-1, 0)) // the last column of a terminal is best left alone
	titles := make([]string, len(cells[0]))
	for i, title := range cells[0] {
		titles[i] = strings.TrimSpace(title)
	}
	lines := []string{quiet.Render(strings.TrimRight(strings.Join(cells[0], "  "), " "))}
	for i, r := range rows {
		if height > 0 && len(lines) == height-1 && i < len(rows)-1 {
			return append(lines, quiet.Render(fmt.Sprintf("… and %d more", len(rows)-i)))
		}
		lines = append(lines, drawRow(r, titles, cells[i+1]))
	}
	return lines
}

// drawNotes renders what the rows' table has cut, below an empty line, as far as there is
// room below the lines that are drawn already; with a height of 0 there is for everything.
func drawNotes(rows []observe.Row, width, height, drawn int) []string {
	notes := observe.Notes(rows, max(width-1, 0))
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
	tone := toneOf(r)
	out := make([]string, len(cells))
	for i, cell := range cells {
		switch title := titles[i]; {
		case title == observe.KindColumn:
			rest := strings.TrimPrefix(cell, r.Branch)
			if !r.Exists {
				rest = quiet.Render(rest)
			}
			out[i] = quiet.Render(r.Branch) + rest
		case title == observe.ReadyColumn, title == observe.ReasonColumn:
			out[i] = tone.Render(cell)
		case title == observe.AgeColumn, title == observe.NamespaceColumn, title == observe.DetailColumn && !r.Troubled:
			out[i] = quiet.Render(cell)
		default:
			out[i] = cell
		}
	}
	return strings.Join(out, "  ")
}

func toneOf(r observe.Row) lipgloss.Style {
	switch {
	case r.Troubled:
		return bad
	case r.Going:
		return going
	case r.Ready == observe.True:
		return good
	case r.Exists && r.Ready == observe.Unsaid:
		return quiet
	}
	return soon
}
