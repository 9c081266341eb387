package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// deletionScreen shows a deletion until it is over or somebody quits.
func deletionScreen(ctx context.Context, screen *os.File, title string, run func(context.Context, func(moment) error) error) error {
	var ended error
	opening := deleteModel{treeModel: treeModel{title: title}, begun: time.Now()}
	err := play(ctx, screen, opening, func(ctx context.Context, tell func(tea.Msg)) {
		ended = run(ctx, func(m moment) error {
			tell(m)
			return nil
		})
	})
	if err != nil {
		return err
	}
	return ended
}

// deleteModel is a tree that goes, how far it is, and what is in the way.
type deleteModel struct {
	treeModel
	begun    time.Time
	progress observe.Progress
	policy   report.Policy
}

func (m deleteModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if now, ok := msg.(moment); ok {
		m.progress = now.progress
		if now.world.Root != nil {
			m.policy = policyOf(now.world)
		}
		msg = now.world
	}
	below, then := m.treeModel.Update(msg)
	m.treeModel, _ = below.(treeModel)
	return m, then
}

func (m deleteModel) View() tea.View {
	lines := append(m.lines(max(m.height-2, 10)), "", quiet.Render("q to stop watching; the deletion goes on"))
	return full(lines)
}

func (m deleteModel) last() string { return strings.Join(m.lines(0), "\n") }

// lines draws everything in the given height; 0 for as many as it takes.
func (m deleteModel) lines(height int) []string {
	lines := []string{bold.Render("Deleting "+m.title) + quiet.Render("  "+observe.Age(time.Since(m.begun))), m.bar()}
	if m.gone || m.world.Root == nil {
		return lines
	}
	now := time.Now()
	tree := observe.Build(m.world, now)
	obstacles := drawBlockers(observe.HoldupOf(tree).Blockers, now, m.width, height/3)
	room := 0
	if height > 0 {
		room = max(height-len(lines)-len(obstacles)-1, 4)
	}
	lines = append(append(lines, ""), drawRows(observe.Rows(tree, now), m.width, room)...)
	return append(lines, obstacles...)
}

// bar shows the progress, and says it.
func (m deleteModel) bar() string {
	const widest = 40
	said := m.progress.Text(m.policy)
	if m.progress.Total == 0 {
		return quiet.Render(said)
	}
	width := widest
	if m.width > 0 {
		width = min(max(m.width-len(said)-3, 0), widest)
	}
	full := width * m.progress.Percent / 100
	return good.Render(strings.Repeat("█", full)) + quiet.Render(strings.Repeat("░", width-full)) + "  " + said
}

// drawBlockers renders what is in the way, below an empty line, in the given
// height; 0 for as many lines as it takes.
func drawBlockers(blockers []observe.Blocked, now time.Time, width, height int) []string {
	if len(blockers) == 0 {
		return nil
	}
	cells := observe.BlockerCells(blockers, now, max(width-1, 0))
	lines := []string{"", quiet.Render(strings.TrimRight(strings.Join(cells[0], "  "), " "))}
	for i, line := range cells[1:] {
		if height > 0 && len(lines) >= height-1 && i < len(blockers)-1 {
			return append(lines, quiet.Render(fmt.Sprintf("… and %d more", len(blockers)-i)))
		}
		lines = append(lines, strings.Join([]string{line[0], bad.Render(line[1]), quiet.Render(line[2]), line[3]}, "  "))
	}
	return lines
}
