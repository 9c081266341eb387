package cli

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/espalier-dev/espalier/internal/observe"
)

// demoModel is the demo on a screen: the chapters with their outcomes, and the tree below.
type demoModel struct {
	cloud         demoCloud
	interrupt     func()
	ended         []chapterMsg
	current       int // -1 before the first
	begun         time.Time
	cluster       observe.ClusterState
	fact          string
	cleaning      bool
	end           *endMsg
	width, height int
	frame         int
}

func newDemoModel(of demoCloud, interrupt func()) demoModel {
	return demoModel{cloud: of, interrupt: interrupt, current: -1}
}

// frameMsg animates the spinner.
type frameMsg struct{}

func frame() tea.Cmd {
	return tea.Tick(100*time.Millisecond, func(time.Time) tea.Msg { return frameMsg{} })
}

func (m demoModel) Init() tea.Cmd { return frame() }

func (m demoModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case frameMsg:
		m.frame++
		return m, frame()
	case tea.KeyPressMsg:
		if isQuit(msg) {
			m.interrupt()
		}
	case chapterMsg:
		if msg.ended {
			m.ended = append(m.ended, msg)
		} else {
			m.current, m.begun, m.fact = msg.index, time.Now(), ""
		}
	case observe.ClusterState:
		m.cluster = msg
	case factMsg:
		m.fact = string(msg)
	case cleaningMsg:
		m.cleaning = true
	case endMsg:
		m.end = &msg
		return m, tea.Quit
	}
	return m, nil
}

func (m demoModel) View() tea.View { return fullScreen(m.lines(m.height)) }

func (m demoModel) last() string { return strings.Join(m.lines(0), "\n") }

// lines draws everything in the given height; 0 means no limit.
func (m demoModel) lines(height int) []string {
	width := m.width
	if width <= 0 {
		width = 80
	}
	lines := []string{"", bold.Render("Espalier") + faint.Render("  three layers of resources are created, changed and deleted"), ""}
	for i := range chapters {
		lines = append(lines, m.chapter(i, width))
	}
	lines = append(lines, "")
	if height > 0 {
		height = max(height-len(lines)-2, 4)
	}
	return append(lines, m.below(width, height)...)
}

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// chapter draws the line of a chapter: a mark, the title, the outcome, the duration.
func (m demoModel) chapter(i, width int) string {
	const titleWidth, timeWidth = 29, 7
	mark, title, note, took := faint.Render("·"), faint.Render(pad(chapters[i].title, titleWidth)), "", ""
	switch {
	case i < len(m.ended) && m.ended[i].err != nil:
		mark, title = failing.Render("✗"), bold.Render(pad(chapters[i].title, titleWidth))
		note, took = m.ended[i].outcome(), seconds(m.ended[i].took)
	case i < len(m.ended):
		mark, title = ready.Render("✓"), pad(chapters[i].title, titleWidth)
		note, took = m.ended[i].outcome(), seconds(m.ended[i].took)
	case i == m.current:
		mark, title = pending.Render(spinner[m.frame%len(spinner)]), bold.Render(pad(chapters[i].title, titleWidth))
		took = seconds(time.Since(m.begun))
	}
	room := min(width-titleWidth-timeWidth-6, 42)
	return mark + " " + title + "  " + pad(observe.Truncate(note, max(room, 0)), room) + "  " + faint.Render(fmt.Sprintf("%*s", timeWidth, took))
}

// below draws the tree while there is one, its last state if the demo fails, and the next steps
// at the end.
func (m demoModel) below(width, height int) []string {
	switch {
	case m.end != nil && m.end.err == nil:
		command, text := m.cloud.next()
		return []string{
			ready.Render("Done") + fmt.Sprintf(" in %s; the API server is stopped and its data are removed.", seconds(m.end.took)),
			command + faint.Render(" "+text),
			"examples/" + m.cloud.folder() + faint.Render(" has the manifests"),
		}
	case m.cleaning && m.end == nil:
		return []string{faint.Render("Stopping the API server and removing its data …")}
	case m.cluster.Root == nil && m.end == nil:
		return []string{faint.Render("Ctrl-C to stop")}
	case m.cluster.Root == nil:
		return nil
	}
	now := time.Now()
	lines := drawRows(observe.Rows(observe.Build(m.cluster, now), now), width, height)
	if status := topStatus(m.cluster.Root); status != "" {
		lines = append(lines, "", faint.Render("status of the top: ")+observe.Truncate(status, max(width-19, 1)))
	}
	if m.fact != "" {
		lines = append(lines, observe.Truncate(m.fact, width))
	}
	return lines
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-lipgloss.Width(text), 0))
}

func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
