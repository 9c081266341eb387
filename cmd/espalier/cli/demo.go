package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
)

// demoLimit bounds the whole demo, without the cleaning up.
const demoLimit = 60 * time.Second

var errInterrupted = errors.New("interrupted; everything is cleaned up")

func newDemo() *cobra.Command {
	var logFile string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch three nested layers of resources come alive, change and go",
		Long: "Runs a control plane and the controllers of its own, on loopback and with its data\n" +
			"in a temporary directory, and a small cloud beside it; applies an example of three\n" +
			"nested layers, whose lowest are resources of that cloud; and shows how they come,\n" +
			"how a change in the cloud arrives at the top, and how they go. Nothing of it is\n" +
			"left behind.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, logFile) },
	}
	cmd.Flags().StringVar(&logFile, "log", os.DevNull, "where the controllers' log goes")
	return cmd
}

// runDemo tells the story on the screen, or in lines where there is none. The
// story ends, and cleans up, before this returns.
func runDemo(cmd *cobra.Command, logFile string) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	defer log.Close()
	// The signals that end the process are answered by ending the story.
	ctx, interrupt := context.WithCancelCause(context.WithoutCancel(cmd.Context()))
	defer interrupt(nil)
	defer context.AfterFunc(cmd.Context(), func() { interrupt(errInterrupted) })()

	screen, ok := terminal(cmd.OutOrStdout())
	if !ok {
		lines := &demoLines{to: cmd.OutOrStdout()}
		return newDemoStory(log, lines.tell, 0).run(ctx)
	}
	var failure error
	model := newDemoModel(func() { interrupt(errInterrupted) })
	// Only the story's end ends the show: what was begun is taken down on screen.
	err = play(context.Background(), screen, model, func(_ context.Context, tell func(tea.Msg)) {
		failure = newDemoStory(log, func(m any) { tell(m) }, pace).run(ctx)
	})
	interrupt(errInterrupted) // for the case that the screen failed
	return errors.Join(failure, err)
}
