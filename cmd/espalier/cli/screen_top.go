package cli

import (
	"context"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/espalier-dev/espalier/internal/observe/top"
)

// topScreen shows tables, each in place of the one before, until the user quits or run ends.
func topScreen(ctx context.Context, screen *os.File, run func(context.Context, func(top.Table) error) error) error {
	var ended error
	err := runScreen(ctx, screen, topModel{}, func(ctx context.Context, send func(tea.Msg)) {
		ended = run(ctx, func(t top.Table) error {
			send(t)
			return nil
		})
		send(topEnded{})
	})
	if err != nil {
		return err
	}
	return ended
}

// topEnded says that there are no more tables.
type topEnded struct{}

// topModel shows the last table.
type topModel struct {
	table         top.Table
	known         bool
	width, height int
}

func (m topModel) Init() tea.Cmd { return nil }

func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case top.Table:
		m.table, m.known = msg, true
	case topEnded:
		return m, tea.Quit
	case tea.KeyPressMsg:
		if isQuit(msg) {
			return m, tea.Quit
		}
	}
	return m, nil
}

func (m topModel) View() tea.View {
	lines := m.lines()
	if room := max(m.height-2, 1); len(lines) > room {
		lines = append(lines[:room-1:room-1], faint.Render("… the screen is too small for the rest"))
	}
	return fullScreen(append(lines, "", faint.Render("q to quit")))
}

func (m topModel) last() string { return strings.Join(m.lines(), "\n") }

// lines are the table, with bold headers.
func (m topModel) lines() []string {
	if !m.known {
		return nil
	}
	lines := strings.Split(strings.TrimRight(m.table.Text(max(m.width-1, 0)), "\n"), "\n") // writing into the last column may wrap the line
	for i, line := range lines {
		if i > 1 && lines[i-1] == "" && strings.ToUpper(line) == line || i == 0 {
			lines[i] = bold.Render(line)
		}
	}
	return lines
}
