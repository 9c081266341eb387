package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
)

// configuration is what the controllers do: by default, by the file of --config, and by flags, each of which precedes the one before.
type configuration struct {
	server.ControllerConfiguration
	defaults server.ControllerConfiguration
	file     string
}

// add sets the defaults, of which flags that are added later set fields.
func (c *configuration) add(cmd *cobra.Command, defaults server.ControllerConfiguration) *pflag.FlagSet {
	c.defaults, c.ControllerConfiguration = defaults, defaults
	cmd.Flags().StringVar(&c.file, "config", "", "file with a ControllerConfiguration; flags override its fields")
	return cmd.Flags()
}

// complete reads the file, and validates the result. The flags must be parsed.
func (c *configuration) complete(cmd *cobra.Command) error {
	if c.file == "" {
		if err := c.Validate().ToAggregate(); err != nil {
			return &usageError{err}
		}
		return nil
	}
	text, err := os.ReadFile(c.file)
	if err != nil {
		return &usageError{fmt.Errorf("--config: %w", err)}
	}
	problems, err := c.read(cmd, text)
	if err == nil {
		err = append(problems, c.Validate()...).ToAggregate()
	}
	if err != nil {
		return &usageError{fmt.Errorf("--config %s: %w", c.file, err)}
	}
	return nil
}

// read reads the text of the file. Flags that are given keep their values.
func (c *configuration) read(cmd *cobra.Command, text []byte) (field.ErrorList, error) {
	read, problems, err := server.ParseConfiguration(text, c.defaults)
	if err != nil {
		return nil, err
	}
	var given []func() error
	cmd.Flags().Visit(func(flag *pflag.Flag) { given = append(given, setAgain(flag)) })
	c.ControllerConfiguration = read
	for _, again := range given {
		err = errors.Join(err, again())
	}
	return problems, err
}

// setAgain returns a function that gives a flag the value that it has now.
func setAgain(flag *pflag.Flag) func() error {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		values := list.GetSlice()
		return func() error { return list.Replace(values) }
	}
	text := flag.Value.String()
	return func() error { return flag.Value.Set(text) }
}

// addSelection adds the flags for the part of the cluster that an installation works on.
func (c *configuration) addSelection(flags *pflag.FlagSet, prefix string) {
	flags.StringSliceVar(&c.WatchNamespaces, shard.NamespacesFlag, nil,
		prefix+"namespaces to work in, or to leave out with !NAMESPACE; cluster-scoped objects go to the installation that leaves some out")
	flags.StringVar(&c.WatchLabelSelector, shard.LabelsFlag, "", prefix+"label selector of the definitions, with all that they serve, and managed resources to work on")
}

// addFunctions adds the flags for how functions are served.
func (c *configuration) addFunctions(flags *pflag.FlagSet) {
	flags.BoolVar(&c.Functions.Development, "functions-development", c.Functions.Development,
		"accept a Function's annotation that names a loopback port without TLS, if the function is neither installed nor built in")
	flags.StringArrayVar(&c.Functions.Environment, "function-env", nil,
		"environment variable for the programs of functions, which get no other: NAME=VALUE, or NAME for its value here; repeatable")
	flags.StringArrayVar(&c.Functions.Local, "function", nil,
		"where to call a function, whatever the cluster has: NAME=./program, NAME=HOST:PORT on this machine, or NAME=grpcs://HOST:PORT; repeatable")
}

// addControllers adds the flags that up and run have in common.
func (c *configuration) addControllers(flags *pflag.FlagSet) {
	flags.StringVar(&c.Health.BindAddress, "health-probe-bind-address", c.Health.BindAddress, "address of /healthz and /readyz, such as :8081 in a pod; 0 for none")
	flags.StringVar(&c.Metrics.BindAddress, "metrics-bind-address", c.Metrics.BindAddress, "address of /metrics, such as :8080 in a pod; 0 for none")
	flags.BoolVar(&c.Metrics.Secure, "metrics-secure", false,
		"serve /metrics over TLS, to clients whose token is allowed to get it (TokenReview, SubjectAccessReview); the address then serves the details of /readyz?verbose at /readyz/verbose")
	flags.StringVar(&c.IntrospectionSocket, "introspection-socket", "",
		"socket for 'espalier watches' and 'espalier top', in a directory of mode 0700; by default one for this user and cluster, 0 for none")
	flags.IntVar(&c.Workers, "workers", c.Workers, "concurrent reconciles of each kind")
	flags.BoolVar(&c.AllowCRDDeletion, "allow-crd-deletion", false, "delete the CustomResourceDefinition of a deleted definition, once it has no instances")
	flags.BoolVar(&c.RequireServiceAccount, "require-service-account", false,
		"refuse cluster-scoped graph definitions without a service account, because they would use the controllers' permissions")
	flags.BoolVar(&c.PostgreSQL.Enabled, "postgresql", false, "serve the kinds of postgresql.espalier.dev, whose external resources are on PostgreSQL servers")
	flags.BoolVar(&c.AWS.Enabled, "aws", false, "serve the kinds of resource types of AWS that are activated")
	flags.StringVar(&c.Tracing.Endpoint, "tracing-endpoint", "",
		"URL to export traces to by OTLP, with TLS unless it begins with http://; by default $OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or $OTEL_EXPORTER_OTLP_ENDPOINT, or no export")
	c.addFunctions(flags)
	flags.StringVar((*string)(&c.Log.Format), "log-format", string(c.Log.Format), "format of the log: text or json")
	flags.IntVarP(&c.Log.Verbosity, "verbosity", "v", 0, "verbosity of the log: 0 to 3")
}

// addRun adds the flags that only run has.
func (c *configuration) addRun(flags *pflag.FlagSet) {
	flags.Var((*dialectFlag)(&c.Dialects), "dialects", "dialects to serve; by default those whose CustomResourceDefinitions no other program has installed")
	flags.StringVar(&c.Webhook.BindAddress, "webhook-bind-address", c.Webhook.BindAddress,
		"address of the admission webhook for Usages and ClusterUsages and of the conversion webhook, over TLS; 0 for none")
	flags.StringVar(&c.Webhook.Service, "webhook-service", "", "Service of the webhooks: namespace/name, or namespace/name:port")
	flags.StringVar(&c.Webhook.URL, "webhook-url", "", "URL of the webhooks, if this program runs outside the cluster")
	flags.BoolVar(&c.Webhook.ReplaceCrossplane, "replace-crossplane-webhook", false,
		"delete ValidatingWebhookConfiguration crossplane-no-usages, which blocks deletions of objects in use once Crossplane is stopped")
	flags.StringVar(&c.UI.BindAddress, "ui-bind-address", c.UI.BindAddress,
		"address of the page of 'espalier ui', over TLS; viewers log in with a token of the cluster and read with its permissions; 0 for none")
	flags.BoolVar(&c.LeaderElection.Enabled, "leader-elect", true, "elect a leader, so that one of several processes runs the controllers")
	flags.StringVar(&c.LeaderElection.Namespace, "leader-election-namespace", "",
		"namespace of the leases, the same for all processes of a cluster; by default the pod's namespace")
	c.addSelection(flags, "")
}

// addSimulated adds the flags of commands that run the controllers without effect: those of functions, and one for Secrets.
func (c *configuration) addSimulated(cmd *cobra.Command) *pflag.FlagSet {
	flags := c.add(cmd, simulatedDefaults())
	c.addFunctions(flags)
	flags.StringVar((*string)(&c.SecretOutputs), "secret-outputs", string(c.SecretOutputs),
		"policy for definitions with Secret data in outputs: Refuse or Warn")
	return flags
}

// simulatedDefaults returns the controllers' defaults, except that ResourceGroups can define any kind: the cluster that they will
// be applied to is unknown.
func simulatedDefaults() server.ControllerConfiguration {
	c := server.DefaultConfiguration()
	c.ResourceGroups = server.ResourceGroups{}
	return c
}

// findNamespace sets the namespace of the leases to the pod's, unless it is configured.
func (c *configuration) findNamespace() error {
	namespace := cmp.Or(c.LeaderElection.Namespace, manager.PodNamespace())
	switch {
	case c.LeaderElection.Enabled && namespace == "":
		return &usageError{errors.New("--leader-election-namespace is required outside of a pod: all processes of a cluster must have their Leases in the same namespace. --leader-elect=false needs none")}
	case c.LeaderElection.Enabled:
		c.LeaderElection.Namespace = namespace
	case namespace == "" && c.Webhook.BindAddress != "0" && c.Webhook.CertPath == "":
		return &usageError{errors.New("--leader-election-namespace is required outside of a pod: it is the namespace of Secret espalier-webhook, with the certificate of the webhooks")}
	}
	return nil
}

// dialectFlag is a list of dialects, separated by commas. A second list is added to the first.
type dialectFlag []server.Dialect

// Set implements pflag.Value.
func (f *dialectFlag) Set(text string) error { return f.Append(text) }

// Append implements pflag.SliceValue.
func (f *dialectFlag) Append(text string) error {
	dialects, err := server.ParseDialects(strings.Split(text, ","))
	*f = append(*f, dialects...)
	return err
}

// Replace implements pflag.SliceValue.
func (f *dialectFlag) Replace(names []string) (err error) {
	*f, err = server.ParseDialects(names)
	return err
}

// GetSlice implements pflag.SliceValue.
func (f *dialectFlag) GetSlice() []string {
	names := make([]string, len(*f))
	for i, d := range *f {
		names[i] = string(d)
	}
	return names
}

// String implements pflag.Value.
func (f *dialectFlag) String() string { return strings.Join(f.GetSlice(), ",") }

// Type implements pflag.Value.
func (f *dialectFlag) Type() string { return "graph,composition" }
