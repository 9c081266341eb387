package cli

import (
	"context"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/espalier-dev/espalier/internal/observe"
)

// treeScreen shows a tree that lives, until it is gone or somebody quits.
func treeScreen(ctx context.Context, screen *os.File, title string, worlds <-chan observe.World) error {
	return play(ctx, screen, treeModel{title: title}, func(ctx context.Context, tell func(tea.Msg)) {
		_ = eachWorld(ctx, worlds, func(w observe.World) error { // ends with the context or the tree
			tell(w)
			return nil
		})
	})
}

// treeModel is a tree on a screen.
type treeModel struct {
	title         string
	world         observe.World
	begun, gone   bool
	width, height int
}

func (m treeModel) Init() tea.Cmd { return tick() }

func (m treeModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, tick()
	case tea.KeyPressMsg:
		if isQuit(msg) {
			return m, tea.Quit
		}
	case observe.World:
		if msg.Gone() {
			m.gone = true
			return m, tea.Quit
		}
		m.world, m.begun = msg, true
	}
	return m, nil
}

func (m treeModel) View() tea.View {
	lines := append(m.lines(max(m.height-2, 3)), "", quiet.Render("q to quit"))
	return full(lines)
}

func (m treeModel) last() string { return strings.Join(m.lines(0), "\n") }

func (m treeModel) lines(height int) []string {
	switch {
	case m.gone:
		return []string{m.title + " is gone"}
	case !m.begun:
		return nil
	}
	rows := rowsOf(m.world, time.Now())
	if len(rows) == 0 {
		return []string{quiet.Render("there are none: " + m.title)}
	}
	lines := drawRows(rows, m.width, height)
	return append(lines, drawNotes(rows, m.width, height, len(lines))...)
}
