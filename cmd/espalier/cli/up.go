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
		flags   controllerFlags
		options embedded.Options
		sky     bool
		hook    bool
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run an embedded control plane and the controllers",
		Long: "Runs a Kubernetes API server of its own, with etcd, on loopback, and the\n" +
			"controllers against it, until it is interrupted. What is applied to it stays in\n" +
			"the data directory.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			served, err := flags.functions.options(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return up(cmd, flags, options, sky, hook, served)
		},
	}
	flags.add(cmd, controllerDefaults{health: "0", metrics: "0", moreColumns: true})
	cmd.Flags().StringVar(&options.DataDir, "data-dir", defaultDataDir(), "where the control plane keeps its data")
	cmd.Flags().StringVar(&options.Kubeconfig, "write-kubeconfig", "", "where the kubeconfig is written; by default in the data directory")
	cmd.Flags().IntVar(&options.Port, "port", 0, "the API server's port on 127.0.0.1; by default the one it had before, or any that is free")
	cmd.Flags().BoolVar(&hook, "webhook", true, "let the API server refuse to delete what a Usage or ClusterUsage keeps, and convert instances between versions")
	cmd.Flags().BoolVar(&sky, "sandbox", false, "serve kinds of sandbox.espalier.dev, whose external resources are in a small cloud in the data directory")
	return cmd
}

// defaultDataDir is a directory that outlives reboots.
func defaultDataDir() string {
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "espalier")
	}
	return ".espalier"
}

func up(cmd *cobra.Command, flags controllerFlags, options embedded.Options, sky, hook bool, served packages.Options) (err error) {
	out, ctx := cmd.OutOrStdout(), cmd.Context()
	options.Log = cmd.ErrOrStderr()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	plane, err := embedded.Start(starting, options)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted while starting: that is a way to stop
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
			stop() // without its API server there is nothing to control
		case <-running.Done():
		}
	}()
	ready := make(chan struct{})
	managed := flags.options(plane.Config(), flags.logger(cmd), served)
	managed.Ready = ready
	if hook {
		managed.Webhook = &webhook.Options{Address: "127.0.0.1:0", URL: "https://127.0.0.1", Store: webhook.Directory(filepath.Join(options.DataDir, "webhook"))}
	}
	if sky {
		c, err := cloud.Open(filepath.Join(options.DataDir, "sandbox.json"), cloud.Options{Behaviours: sandbox.Usual()})
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
		return errors.New("the control plane ended by itself; its log is in the data directory")
	}
	return err
}
