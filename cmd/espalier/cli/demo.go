package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
)

var errInterrupted = errors.New("interrupted; everything is cleaned up")

func newDemo() *cobra.Command {
	var logFile, cloudName, testCloud string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch three nested layers of resources being created, changed and deleted",
		Long: "Runs a control plane on loopback with its data in a temporary directory, the\n" +
			"controllers, and a simulated cloud; applies an example of three nested layers, the\n" +
			"lowest of which are resources of that cloud; and shows how they are created, how a\n" +
			"change in the cloud arrives at the top, and how they are deleted. It leaves nothing\n" +
			"behind.\n\n" +
			"With --cloud aws, the resources are AWS's, in a test cloud with AWS's APIs on loopback;\n" +
			"'make demo CLOUD=aws' installs and builds that.",
		Example: "  espalier demo",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch cloudName {
			case "sandbox":
				return runDemo(cmd, &sandboxDemo{}, logFile)
			case "aws":
				return runDemo(cmd, &awsDemo{program: testCloud}, logFile)
			}
			return &usageError{fmt.Errorf("--cloud can be sandbox or aws, not %q", cloudName)}
		},
	}
	cmd.Flags().StringVar(&cloudName, "cloud", "sandbox", "the cloud of the resources: sandbox or aws")
	cmd.Flags().StringVar(&testCloud, "testcloud", "", "with --cloud aws, the program of the test cloud; by default aws-testcloud beside this one")
	cmd.Flags().StringVar(&logFile, "log", os.DevNull, "file for the controllers' log")
	return cmd
}

// runDemo runs the demo on the screen or, without a terminal, in lines. It returns after the
// demo has cleaned up.
func runDemo(cmd *cobra.Command, of demoCloud, logFile string) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	// A signal that ends the process interrupts the demo, which then cleans up.
	ctx, interrupt := context.WithCancelCause(context.WithoutCancel(cmd.Context()))
	defer interrupt(nil)
	defer context.AfterFunc(cmd.Context(), func() { interrupt(errInterrupted) })()

	screen, ok := terminal(cmd.OutOrStdout())
	if !ok {
		lines := &demoLines{to: cmd.OutOrStdout()}
		return newDemoStory(of, log, lines.handle, 0).run(ctx)
	}
	var failure error
	model := newDemoModel(of, func() { interrupt(errInterrupted) })
	// Only the end of the demo ends the screen, so that it shows the cleanup.
	err = runScreen(context.Background(), screen, model, func(_ context.Context, send func(tea.Msg)) {
		failure = newDemoStory(of, log, func(m any) { send(m) }, pace).run(ctx)
	})
	interrupt(errInterrupted) // in case the screen failed
	return errors.Join(failure, err)
}
