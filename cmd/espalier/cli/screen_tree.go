package cli

import (
	"context"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/espalier-dev/espalier/internal/observe"
)

// treeScreen shows a tree as it changes, until it is gone or the user quits.
func treeScreen(ctx context.Context, screen *os.File, title string, states <-chan observe.ClusterState) error {
	return runScreen(ctx, screen, treeModel{title: title}, func(ctx context.Context, send func(tea.Msg)) {
		_ = forEachState(ctx, states, func(w observe.ClusterState) error { // ends with the context or the tree
			send(w)
			return nil
		})
	})
}

// treeModel is a tree on a screen.
type treeModel struct {
	title         string
	cluster       observe.ClusterState
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
	case observe.ClusterState:
		if msg.Gone() {
			m.gone = true
			return m, tea.Quit
		}
		m.cluster, m.begun = msg, true
	}
	return m, nil
}

func (m treeModel) View() tea.View {
	lines := append(m.lines(max(m.height-2, 3)), "", faint.Render("q to quit"))
	return fullScreen(lines)
}

func (m treeModel) last() string { return strings.Join(m.lines(0), "\n") }

func (m treeModel) lines(height int) []string {
	switch {
	case m.gone:
		return []string{m.title + " is gone"}
	case !m.begun:
		return nil
	}
	rows := rowsOf(m.cluster, time.Now())
	if len(rows) == 0 {
		return []string{faint.Render("no objects found: " + m.title)}
	}
	lines := drawRows(rows, m.width, height)
	return append(lines, drawNotes(observe.Notes(rows, max(m.width-1, 0)), height, len(lines))...)
}
