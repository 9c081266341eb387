package cli

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/espalier-dev/espalier/internal/observe"
)

// demoModel is the demo on a screen: the chapters with what has become of them,
// and the tree below.
type demoModel struct {
	interrupt     func()
	ended         []chapterMsg
	current       int // -1 before the first
	begun         time.Time
	world         observe.World
	cleaning      bool
	end           *endMsg
	width, height int
	frame         int
}

func newDemoModel(interrupt func()) demoModel {
	return demoModel{interrupt: interrupt, current: -1}
}

// frameMsg moves what shows that work goes on.
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
			m.current, m.begun = msg.index, time.Now()
		}
	case observe.World:
		m.world = msg
	case cleaningMsg:
		m.cleaning = true
	case endMsg:
		m.end = &msg
		return m, tea.Quit
	}
	return m, nil
}

func (m demoModel) View() tea.View { return full(m.lines(m.height)) }

func (m demoModel) last() string { return strings.Join(m.lines(0), "\n") }

// lines draws everything in the given height; 0 for as many as it takes.
func (m demoModel) lines(height int) []string {
	width := m.width
	if width <= 0 {
		width = 80
	}
	lines := []string{"", bold.Render("Espalier") + quiet.Render("  three layers of resources come alive, change and go"), ""}
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

// chapter is a chapter's line: a mark, the title, what came of it, the time.
func (m demoModel) chapter(i, width int) string {
	const titleWidth, timeWidth = 29, 7
	mark, title, note, took := quiet.Render("·"), quiet.Render(pad(chapters[i].title, titleWidth)), "", ""
	switch {
	case i < len(m.ended) && m.ended[i].err != nil:
		mark, title = bad.Render("✗"), bold.Render(pad(chapters[i].title, titleWidth))
		note, took = m.ended[i].outcome(), seconds(m.ended[i].took)
	case i < len(m.ended):
		mark, title = good.Render("✓"), pad(chapters[i].title, titleWidth)
		note, took = m.ended[i].outcome(), seconds(m.ended[i].took)
	case i == m.current:
		mark, title = soon.Render(spinner[m.frame%len(spinner)]), bold.Render(pad(chapters[i].title, titleWidth))
		took = seconds(time.Since(m.begun))
	}
	room := min(width-titleWidth-timeWidth-6, 42)
	return mark + " " + title + "  " + pad(observe.Cut(note, max(room, 0)), room) + "  " + quiet.Render(fmt.Sprintf("%*s", timeWidth, took))
}

// below is the tree while there is one (as it was, if the demo fails), and in
// the end what there is to say.
func (m demoModel) below(width, height int) []string {
	switch {
	case m.end != nil && m.end.err == nil:
		return []string{
			good.Render("Done") + fmt.Sprintf(" in %s; the API server is stopped and its data are removed.", seconds(m.end.took)),
			"espalier up --sandbox" + quiet.Render(" runs the same to stay; what was applied is in ") + "examples/eks-with-vpc",
		}
	case m.cleaning && m.end == nil:
		return []string{quiet.Render("Stopping the API server and removing its data …")}
	case m.world.Root == nil && m.end == nil:
		return []string{quiet.Render("Ctrl-C to stop")}
	case m.world.Root == nil:
		return nil
	}
	now := time.Now()
	lines := drawRows(observe.Rows(observe.Build(m.world, now), now), width, height)
	if status := topStatus(m.world.Root); status != "" {
		lines = append(lines, "", quiet.Render("status of the top: ")+observe.Cut(status, max(width-19, 1)))
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
