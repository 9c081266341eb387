package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/functions/packages"
	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/webhook"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// Limits of starting and stopping the embedded control plane.
const (
	startLimit = 2 * time.Minute
	stopLimit  = 30 * time.Second
)

func newUp() *cobra.Command {
	var (
		flags       controllerFlags
		options     embedded.Options
		withSandbox bool
		withWebhook bool
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run an embedded control plane and the controllers",
		Long: "Runs a Kubernetes API server of its own, with etcd, on loopback, and the\n" +
			"controllers against it, until it is interrupted. What is applied to it stays in\n" +
			"the data directory.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			served, err := flags.functions.options(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return up(cmd, flags, options, withSandbox, withWebhook, served)
		},
	}
	flags.add(cmd, controllerDefaults{health: "0", metrics: "0", moreColumns: true, development: true})
	cmd.Flags().StringVar(&options.DataDir, "data-dir", defaultDataDir(), "data directory of the control plane")
	cmd.Flags().StringVar(&options.Kubeconfig, "write-kubeconfig", "", "file to write the kubeconfig to; by default in the data directory")
	cmd.Flags().IntVar(&options.Port, "port", 0, "the API server's port on 127.0.0.1; by default the previous one, or any free one")
	cmd.Flags().BoolVar(&withWebhook, "webhook", true, "serve the admission webhook for Usages and ClusterUsages and the conversion webhook")
	cmd.Flags().BoolVar(&withSandbox, "sandbox", false, "serve the kinds of sandbox.espalier.dev, whose external resources are in a simulated cloud in the data directory")
	return cmd
}

// defaultDataDir is a directory that survives reboots.
func defaultDataDir() string {
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "espalier")
	}
	return ".espalier"
}

func up(cmd *cobra.Command, flags controllerFlags, options embedded.Options, withSandbox, withWebhook bool, served packages.Options) (err error) {
	out, ctx := cmd.OutOrStdout(), cmd.Context()
	options.Log = cmd.ErrOrStderr()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	plane, err := embedded.Start(starting, options)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted while starting
		}
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		err = errors.Join(err, plane.Stop(stopping))
	}()
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", plane.Kubeconfig())

	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-plane.Done():
			stop() // the controllers cannot run without the API server
		case <-running.Done():
		}
	}()
	ready := make(chan struct{})
	managed, err := flags.options(plane.Config(), flags.logger(cmd), served)
	if err != nil {
		return err
	}
	managed.Ready = ready
	tracer, flush, err := flags.tracing.start(ctx, managed.Log)
	if err != nil {
		return err
	}
	defer flush()
	managed.Tracer = tracer
	if withWebhook {
		managed.Webhook = &webhook.Options{
			Address: "127.0.0.1:0", URL: "https://127.0.0.1", Store: webhook.Directory(filepath.Join(options.DataDir, "webhook")),
			ClientCA: plane.ClientCA(), ClientNames: []string{embedded.WebhookClientName},
		}
	}
	if withSandbox {
		c, err := cloud.Open(filepath.Join(options.DataDir, "sandbox.json"), cloud.Options{Behaviours: sandbox.TypicalBehaviours()})
		if err != nil {
			return fmt.Errorf("open the sandbox cloud: %w", err)
		}
		managed.Providers = append(managed.Providers, sandbox.Provider(c))
	}
	m, err := server.NewManager(managed)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-ready:
			fmt.Fprintln(out, "ready")
		case <-running.Done():
		}
	}()
	err = m.Run(running)
	if ctx.Err() == nil && err == nil {
		return errors.New("the control plane exited unexpectedly; see its log in the data directory")
	}
	return err
}
