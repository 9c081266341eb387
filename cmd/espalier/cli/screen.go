package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"
)

// terminal reports whether output goes to a terminal that can be redrawn.
func terminal(to io.Writer) (*os.File, bool) {
	file, ok := to.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(file.Fd())) {
		return nil, false
	}
	return file, true
}

// widthOf is the width of the terminal that output goes to, to which every verb wraps its text; 0 if it is not a terminal: what other
// programs read is not wrapped.
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

// filedPlanWidth is the width of a plan that is not printed on a terminal: those are kept in files and comments, for people.
const filedPlanWidth = 80

// planWidthOf is the width of a plan on the given output.
func planWidthOf(to io.Writer) int { return cmp.Or(widthOf(to), filedPlanWidth) }

// screenModel is a model that fills the screen while it runs, and prints its last state after.
type screenModel interface {
	tea.Model
	// last is the text that stays after the screen is left.
	last() string
}

// runScreen runs a model until it quits or the context ends. Feed runs concurrently and sends
// messages to the model; its context ends with the screen.
func runScreen(ctx context.Context, screen *os.File, model screenModel, feed func(ctx context.Context, send func(tea.Msg))) error {
	options := []tea.ProgramOption{
		tea.WithOutput(screen),
		tea.WithEnvironment(colourEnvironment()),
		tea.WithoutSignalHandler(), // signals end the context
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		options = append(options, tea.WithInput(nil))
	}
	program := tea.NewProgram(model, options...)
	ctx, stop := context.WithCancel(ctx)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		feed(ctx, program.Send)
	}()
	quit := context.AfterFunc(ctx, program.Quit)
	final, err := program.Run()
	quit()
	stop()
	<-fed
	if m, ok := final.(screenModel); ok {
		_ = printColoured(screen, m.last())
	}
	return err
}

// printColoured prints a text in the colours that the terminal has.
func printColoured(screen *os.File, text string) error {
	_, err := fmt.Fprintln(colorprofile.NewWriter(screen, colourEnvironment()), text)
	return err
}

// colourEnvironment is the environment, with any value of NO_COLOR as one that the libraries know.
func colourEnvironment() []string {
	environment := os.Environ()
	if os.Getenv("NO_COLOR") != "" {
		environment = append(environment, "NO_COLOR=1")
	}
	return environment
}

// fullScreen returns a view of lines that fills the screen.
func fullScreen(lines []string) tea.View {
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}

// tickMsg updates the ages each second.
type tickMsg time.Time

func tick() tea.Cmd {
	return tea.Every(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// isQuit reports whether a key ends the program.
func isQuit(key tea.KeyPressMsg) bool {
	switch key.String() {
	case "ctrl+c", "q", "esc":
		return true
	}
	return false
}
