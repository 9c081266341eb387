package cli

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/espalier-dev/espalier/internal/view"
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
func drawRows(rows []view.Row, width, height int) []string {
	cells := view.Cells(rows, max(width-1, 0)) // the last column of a terminal is best left alone
	lines := []string{quiet.Render(strings.TrimRight(strings.Join(cells[0], "  "), " "))}
	for i, r := range rows {
		if height > 0 && len(lines) == height-1 && i < len(rows)-1 {
			return append(lines, quiet.Render(fmt.Sprintf("… and %d more", len(rows)-i)))
		}
		lines = append(lines, drawRow(r, cells[i+1]))
	}
	return lines
}

// drawRow colours the cells of a row, which begin with kind, name and ready, and
// end with the age and what is waited for.
func drawRow(r view.Row, cells []string) string {
	tone := toneOf(r)
	out := make([]string, len(cells))
	for i, cell := range cells {
		switch {
		case i == 0:
			rest := strings.TrimPrefix(cell, r.Branch)
			if !r.Exists {
				rest = quiet.Render(rest)
			}
			out[i] = quiet.Render(r.Branch) + rest
		case i == 2, i == 3 && len(cells) == 6:
			out[i] = tone.Render(cell)
		case i == len(cells)-2, i == len(cells)-1 && !r.Troubled:
			out[i] = quiet.Render(cell)
		default:
			out[i] = cell
		}
	}
	return strings.Join(out, "  ")
}

func toneOf(r view.Row) lipgloss.Style {
	switch {
	case r.Troubled:
		return bad
	case r.Going:
		return going
	case r.Ready == view.True:
		return good
	case r.Exists && r.Ready == view.Unsaid:
		return quiet
	}
	return soon
}
