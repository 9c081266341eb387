package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// programName is the name of the controllers in their lease and their user agent.
const programName = "espalier"

// simulated are the options of controllers that run without effect. The programs of functions write to output.
func (c *configuration) simulated(output io.Writer) (server.ManagerOptions, error) {
	options, err := c.ManagerOptions()
	if err != nil {
		return options, err
	}
	options.Name, options.Version = programName, Version()
	return options, addPrograms(&options.Functions, c.Functions, output)
}

// options returns the options of controllers that run in a cluster.
func (c *configuration) options(config *rest.Config, log logr.Logger, output io.Writer) (server.ManagerOptions, error) {
	options, err := c.simulated(output)
	if err != nil {
		return options, err
	}
	options.Config, options.Log, options.IntrospectionSocket = config, log, c.socket(config)
	if options.Packages != nil && c.Packages.CABundle != "" {
		if options.Packages.Registries.CABundle, err = os.ReadFile(c.Packages.CABundle); err != nil {
			return options, fmt.Errorf("packages.caBundle: %w", err)
		}
	}
	options.Providers, err = c.providers()
	return options, err
}

// providers returns the enabled providers.
func (c *configuration) providers() ([]managed.Provider, error) {
	var out []managed.Provider
	if c.PostgreSQL.Enabled {
		out = append(out, postgresql.Provider(postgresql.Options{LocalServers: c.PostgreSQL.LocalServers}))
	}
	if c.AWS.Enabled {
		if err := requireAWS(); err != nil {
			return nil, err
		}
		p, err := linkedAWS.Provider(c.AWS)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// socket is the path of the introspection socket; empty for none.
func (c *configuration) socket(config *rest.Config) string {
	switch c.IntrospectionSocket {
	case "":
		return introspect.SocketPath(config)
	case "0":
		return ""
	}
	return c.IntrospectionSocket
}

// logger writes to the standard error stream.
func (c *configuration) logger(cmd *cobra.Command) logr.Logger {
	return manager.NewLogger(cmd.ErrOrStderr(), c.Log.Format, c.Log.Verbosity)
}

// runFlags are the flags of run.
type runFlags struct {
	configuration
	cluster   clusterFlags
	checkOnly bool
}

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the controllers against a cluster",
		Long: "Runs the controllers against the cluster of the kubeconfig, or, inside a pod, the\n" +
			"pod's own. Of several processes one is the leader. Several installations can share a\n" +
			"cluster, each with --watch-namespaces or --watch-label-selector. The file of --config\n" +
			"has all options of the flags and more; docs/reference/configuration.md lists them.",
		Example: "  espalier run --leader-election-namespace espalier-system\n" +
			"  espalier run --check",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := f.configuration.add(cmd, server.DefaultConfiguration())
	f.addControllers(flags)
	f.addRun(flags)
	f.cluster.add(cmd)
	flags.BoolVar(&f.checkOnly, "check", false, "print what would be installed, and what prevents that; change nothing")
}

// run runs the controllers, or only checks whether they would run.
func (f *runFlags) run(cmd *cobra.Command) error {
	if err := f.complete(cmd); err != nil {
		return err
	}
	if f.Functions.RunPackages {
		return &usageError{fmt.Errorf("--config %s: functions.runPackages does not apply to 'espalier run': a package would run beside the controllers, "+
			"with what they can read", f.file)}
	}
	log := f.logger(cmd) // before the first connection, which would silence the libraries
	config, err := f.cluster.config()
	if err != nil {
		return err
	}
	if !f.checkOnly {
		if err := f.findNamespace(); err != nil {
			return err
		}
	}
	options, err := f.options(config, log, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if options.Page, err = servePage(f.UI, config, log); err != nil {
		return err
	}
	if f.checkOnly {
		return checkRun(cmd, options)
	}
	if err := f.checkAddresses(cmd, &options.Options); err != nil {
		return err
	}
	tracer, flush, err := traces{f.Tracing}.start(cmd.Context(), log)
	if err != nil {
		return err
	}
	defer flush()
	options.Tracer = tracer
	m, err := server.NewManager(options)
	if err != nil {
		return err
	}
	return m.Run(cmd.Context())
}

// clusterFlags select a cluster.
type clusterFlags struct {
	kubeconfig, context string
	// from is a record of a cluster, which is read in its place; empty for none.
	from string
	// notes are those of the record, once it is read.
	notes []string
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig file; by default $KUBECONFIG, or ~/.kube/config, or the pod's own")
	cmd.Flags().StringVar(&f.context, "context", "", "the context of the kubeconfig; by default its current one")
}

// addFrom adds the flag for a record in place of a cluster, for commands that only read.
func (f *clusterFlags) addFrom(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", "", "archive of 'espalier gather', export, or directory of YAML files to read in place of a cluster")
	cmd.MarkFlagsMutuallyExclusive("from", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("from", "context")
}

// loader reads the kubeconfig as kubectl does.
func (f *clusterFlags) loader() clientcmd.ClientConfig {
	return manager.Kubeconfig{Path: f.kubeconfig, Context: f.context}.Loader()
}

// namespaceOr is a namespace, or if it is empty that of the context, or "default" for a record.
func (f *clusterFlags) namespaceOr(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if f.from != "" {
		return metav1.NamespaceDefault, nil
	}
	namespace, _, err := f.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("read the namespace from the kubeconfig: %w", err)
	}
	return namespace, nil
}

// config returns the configuration for the cluster, without client-side throttling, or for the record. What libraries log about requests is
// discarded unless there is a logger: it would garble screens, and the errors say it.
func (f *clusterFlags) config() (*rest.Config, error) {
	manager.SilenceLibraries()
	if f.from != "" {
		config, notes, err := recordedConfig(f.from)
		f.notes = notes
		return config, err
	}
	config, err := manager.Kubeconfig{Path: f.kubeconfig, Context: f.context}.Config()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1
	return config, nil
}
