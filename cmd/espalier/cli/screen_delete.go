package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// deletionScreen shows a deletion until it is over or the user quits.
func deletionScreen(ctx context.Context, screen *os.File, title string, run func(context.Context, func(deletionState) error) error) error {
	var ended error
	opening := deleteModel{treeModel: treeModel{title: title}, begun: time.Now()}
	err := runScreen(ctx, screen, opening, func(ctx context.Context, send func(tea.Msg)) {
		ended = run(ctx, func(m deletionState) error {
			send(m)
			return nil
		})
	})
	if err != nil {
		return err
	}
	return ended
}

// deleteModel is a tree that is being deleted, with its progress and its blockers.
type deleteModel struct {
	treeModel
	begun    time.Time
	progress observe.Progress
	policy   report.Policy
}

func (m deleteModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if now, ok := msg.(deletionState); ok {
		m.progress = now.progress
		if now.cluster.Root != nil {
			m.policy = policyOf(now.cluster)
		}
		msg = now.cluster
	}
	below, then := m.treeModel.Update(msg)
	m.treeModel, _ = below.(treeModel)
	return m, then
}

func (m deleteModel) View() tea.View {
	lines := append(m.lines(max(m.height-2, 10)), "", faint.Render("q to stop watching; the deletion goes on"))
	return fullScreen(lines)
}

func (m deleteModel) last() string { return strings.Join(m.lines(0), "\n") }

// lines draws everything in the given height; 0 means no limit.
func (m deleteModel) lines(height int) []string {
	age := "  " + observe.Age(time.Since(m.begun))
	title := "Deleting " + m.title
	if m.width > 0 {
		title = observe.Truncate(title, max(m.width-1-utf8.RuneCountInString(age), 1))
	}
	lines := []string{bold.Render(title) + faint.Render(age), m.bar()}
	if m.gone || m.cluster.Root == nil {
		return lines
	}
	now := time.Now()
	tree := observe.Build(m.cluster, now)
	found := observe.FindBlockers(tree).Blockers
	blockers := drawBlockers(found, now, m.width, height/3)
	room := 0
	if height > 0 {
		room = max(height-len(lines)-len(blockers)-1, 4)
	}
	lines = append(append(lines, ""), drawRows(observe.Rows(tree, now), m.width, room)...)
	lines = append(lines, blockers...)
	return append(lines, drawNotes(observe.BlockerNotes(found, now, max(m.width-1, 0)), height, len(lines))...)
}

// bar draws the progress as a bar and as text.
func (m deleteModel) bar() string {
	const widest = 40
	text := m.progress.Text(m.policy)
	if m.progress.Total == 0 {
		return faint.Render(text)
	}
	width := widest
	if m.width > 0 {
		width = min(max(m.width-utf8.RuneCountInString(text)-3, 0), widest)
	}
	full := width * m.progress.Percent / 100
	return ready.Render(strings.Repeat("█", full)) + faint.Render(strings.Repeat("░", width-full)) + "  " + text
}

// drawBlockers renders blockers, below an empty line, in the given height; 0 means no limit.
func drawBlockers(blockers []observe.BlockedObject, now time.Time, width, height int) []string {
	if len(blockers) == 0 {
		return nil
	}
	cells := observe.BlockerCells(blockers, now, max(width-1, 0))
	lines := []string{"", faint.Render(strings.TrimRight(strings.Join(cells[0], "  "), " "))}
	for i, line := range cells[1:] {
		if height > 0 && len(lines) >= height-1 && i < len(blockers)-1 {
			return append(lines, faint.Render(fmt.Sprintf("… and %d more", len(blockers)-i)))
		}
		lines = append(lines, strings.Join([]string{line[0], failing.Render(line[1]), faint.Render(line[2]), line[3]}, "  "))
	}
	return lines
}
