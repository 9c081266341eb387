package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// Limits of starting and stopping the embedded control plane.
const (
	startLimit = 2 * time.Minute
	stopLimit  = 30 * time.Second
)

// upFlags are the flags of up.
type upFlags struct {
	configuration
	embedded embedded.Options
	sandbox  bool
	webhook  bool
	// cloud is the test cloud of --sandbox; nil until the controllers run.
	cloud *cloud.Cloud
}

func newUp() *cobra.Command { return (&upFlags{}).command() }

func (f *upFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run an embedded control plane and the controllers",
		Long: "Runs a Kubernetes API server of its own, with etcd, on loopback, and the\n" +
			"controllers against it, until it is interrupted. What is applied to it stays in\n" +
			"the data directory.\n\n" +
			"It has no nodes and no controllers for workloads: Deployments, Jobs and Pods are\n" +
			"stored, and nothing runs them.",
		Example: "  espalier up --sandbox",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

func (f *upFlags) add(cmd *cobra.Command) {
	flags := f.configuration.add(cmd, upDefaults())
	f.addControllers(flags)
	f.addPackages(flags)
	flags.StringVar(&f.embedded.DataDir, "data-dir", defaultDataDir(), "data directory of the control plane")
	flags.StringVar(&f.embedded.Kubeconfig, "write-kubeconfig", "", "file to write the kubeconfig to; by default in the data directory")
	flags.IntVar(&f.embedded.Port, "port", 0, "port of the API server on 127.0.0.1; by default the previous one, or any free one")
	flags.BoolVar(&f.webhook, "webhook", true, "serve the admission webhook for Usages and ClusterUsages and the conversion webhook")
	flags.BoolVar(&f.sandbox, "sandbox", false, "serve the kinds of sandbox.espalier.dev, whose external resources are in a simulated cloud in the data directory")
}

// upDefaults are for one process on a workstation.
func upDefaults() server.ControllerConfiguration {
	c := server.DefaultConfiguration()
	c.LeaderElection.Enabled, c.Health.BindAddress, c.Metrics.BindAddress = false, "0", "0"
	c.MoreColumns, c.Functions.Development, c.Functions.RunPackages, c.Operations.Enabled, c.Graphs = true, true, true, true, true
	return c
}

// check completes the configuration, and refuses what a control plane with one process does not have.
func (f *upFlags) check(cmd *cobra.Command) error {
	if err := f.complete(cmd); err != nil {
		return err
	}
	c, none := f.ControllerConfiguration, upDefaults()
	for section, given := range map[string]bool{
		"leaderElection": c.LeaderElection != none.LeaderElection,
		"ui":             c.UI != none.UI,
		"webhook":        !reflect.DeepEqual(c.Webhook, none.Webhook),
	} {
		if given {
			return &usageError{fmt.Errorf("--config %s: %s does not apply to 'espalier up'", f.file, section)}
		}
	}
	return nil
}

// defaultDataDir is a directory that survives reboots.
func defaultDataDir() string {
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "espalier")
	}
	return ".espalier"
}

// run runs the control plane, and the controllers in it, until one of them ends or the command is interrupted.
func (f *upFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(cmd); err != nil {
		return err
	}
	if _, err := f.simulated(cmd.ErrOrStderr()); err != nil {
		return err // before the control plane starts
	}
	if f.AWS.Enabled {
		if err := requireAWS(); err != nil {
			return err
		}
	}
	ctx := cmd.Context()
	f.embedded.Log = cmd.ErrOrStderr()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	plane, err := embedded.Start(starting, f.embedded)
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
	fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", plane.Kubeconfig())
	return f.runControllers(cmd, plane)
}

// runControllers runs the controllers until they end, the control plane does, or the command is interrupted.
func (f *upFlags) runControllers(cmd *cobra.Command, plane *embedded.ControlPlane) error {
	options, err := f.managerOptions(cmd, plane)
	if err != nil {
		return err
	}
	stop, err := f.runPackages(&options.Functions)
	if err != nil {
		return err
	}
	defer stop()
	tracer, flush, err := traces{f.Tracing}.start(cmd.Context(), options.Log)
	if err != nil {
		return err
	}
	defer flush()
	options.Tracer = tracer
	ready := make(chan struct{})
	options.Ready = ready
	m, err := server.NewManager(options)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(cmd.Context())
	defer stop()
	go func() {
		select {
		case <-plane.Done():
			stop() // the controllers cannot run without the API server
		case <-running.Done():
		}
	}()
	go func() {
		select {
		case <-ready:
			awaitDiscovery(running, plane.Config())
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
		case <-running.Done():
		}
	}()
	err = m.Run(running)
	select {
	case <-plane.Done():
		if cmd.Context().Err() == nil {
			return plane.Failure() // whatever the controllers failed with, they failed without it
		}
	default:
	}
	return err
}

// managerOptions are the options of the controllers in the control plane.
func (f *upFlags) managerOptions(cmd *cobra.Command, plane *embedded.ControlPlane) (server.ManagerOptions, error) {
	options, err := f.options(plane.Config(), f.logger(cmd), cmd.ErrOrStderr())
	if err == nil {
		err = f.checkAddresses(cmd, &options.Options)
	}
	if err != nil {
		return options, err
	}
	options.OneUser = true
	if f.webhook {
		options.Webhook = &webhook.Options{
			Address: "127.0.0.1:0", URL: "https://127.0.0.1", Store: webhook.Directory(filepath.Join(f.embedded.DataDir, "webhook")),
			ClientCA: plane.ClientCA(), ClientNames: []string{embedded.WebhookClientName},
		}
	}
	if f.sandbox {
		f.cloud, err = cloud.Open(filepath.Join(f.embedded.DataDir, "sandbox.json"), cloud.Options{Behaviours: sandbox.TypicalBehaviours()})
		if err != nil {
			return options, fmt.Errorf("open the sandbox cloud: %w", err)
		}
		options.Providers = append(options.Providers, sandbox.Provider(f.cloud))
	}
	return options, nil
}
