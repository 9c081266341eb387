package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/controlplane/internal/plane"
)

// command returns the command line of the program.
func command() *cobra.Command {
	var (
		options     plane.Options
		parentWatch bool
	)
	cmd := &cobra.Command{
		Use:   "espalier-controlplane --data-dir DIR",
		Short: "Serve a Kubernetes API on the loopback interface",
		Long: `Serve a Kubernetes API on the loopback interface.

Once the API is ready, one line is printed: "ready https://127.0.0.1:PORT". Before it, there is a
line if another control plane uses the data directory and this one waits for its end. The process
serves until SIGINT or SIGTERM, and exits with 0. All its data is in the data directory;
started again on the same directory, it serves the same objects on the same port.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if parentWatch {
				ctx = untilClosed(ctx, cmd.InOrStdin())
			}
			options.Waiting = func(message string) { fmt.Fprintln(cmd.OutOrStdout(), message) }
			return plane.Run(ctx, options, func(url string) {
				fmt.Fprintln(cmd.OutOrStdout(), "ready", url)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.DataDir, "data-dir", "",
		"directory of all data: objects, certificates, kubeconfig and log; created with mode 0700")
	flags.StringVar(&options.Kubeconfig, "write-kubeconfig", "",
		"file to write the administrator's kubeconfig to (default DATA-DIR/kubeconfig)")
	flags.IntVar(&options.Port, "port", 0,
		"port to serve on; 0 is the port of the previous start if it is free, and otherwise any free one")
	flags.BoolVar(&options.Fsync, "fsync", true,
		"make every write durable before the response; without it a power failure may lose data, and tests are faster")
	flags.StringVar(&options.LogFile, "log-file", "",
		"file that the components log to (default DATA-DIR/controlplane.log)")
	flags.BoolVar(&parentWatch, "parent-watch", false,
		"stop when standard input is closed, hence when the parent process has exited")
	_ = cmd.MarkFlagRequired("data-dir") // fails only for a flag that does not exist
	return cmd
}

// untilClosed returns a context that ends with ctx or at the end of r. A pipe is closed when the
// process at its other end exits, however it exits; no signal guarantees that.
func untilClosed(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r) // a broken pipe ends the wait as well as a closed one
	}()
	return ctx
}
