package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"golang.org/x/term"
)

// terminal says whether what is printed goes to somebody's screen, where it can
// be redrawn.
func terminal(to io.Writer) (*os.File, bool) {
	file, ok := to.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(file.Fd())) {
		return nil, false
	}
	return file, true
}

// widthOf is how wide the screen is that something is printed to; 0 for what isn't a screen.
func widthOf(to io.Writer) int {
	file, ok := to.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return max(width, 0)
}

// scene is a model that fills the screen and leaves something behind on it.
type scene interface {
	tea.Model
	// last is what stays when the screen is left, at the width it had.
	last() string
}

// play shows a scene until it quits or the context ends. Feed runs beside it and
// tells it what happens.
func play(ctx context.Context, screen *os.File, opening scene, feed func(ctx context.Context, tell func(tea.Msg))) error {
	options := []tea.ProgramOption{
		tea.WithOutput(screen),
		tea.WithoutSignalHandler(), // signals end the context
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		options = append(options, tea.WithInput(nil))
	}
	program := tea.NewProgram(opening, options...)
	ctx, stop := context.WithCancel(ctx)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		feed(ctx, program.Send)
	}()
	quit := context.AfterFunc(ctx, program.Quit)
	ending, err := program.Run()
	quit()
	stop()
	<-fed
	if left, ok := ending.(scene); ok {
		_, _ = lipgloss.Fprintln(screen, left.last()) // with the colours that it has
	}
	return err
}

// full makes lines the content of the whole screen.
func full(lines []string) tea.View {
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}

// tickMsg lets ages go on.
type tickMsg time.Time

func tick() tea.Cmd {
	return tea.Every(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// isQuit says whether a key asks to end.
func isQuit(key tea.KeyPressMsg) bool {
	switch key.String() {
	case "ctrl+c", "q", "esc":
		return true
	}
	return false
}
