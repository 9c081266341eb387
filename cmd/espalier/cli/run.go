package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/kube/inflight"
	"github.com/espalier-dev/espalier/internal/managed/provider"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// controllerFlags are the flags that up and run have in common.
type controllerFlags struct {
	health, metrics  string
	metricsSecure    bool
	metricsCertPath  string
	introspection    string
	workers          int
	inFlight         int
	poll             time.Duration
	allowCRDDeletion bool
	requireAccount   bool
	policies         bool
	resourceGroups   server.ResourceGroups
	secretOutputs    string
	verbosity        int
	postgresql       bool
	localServers     bool
	aws              bool
	awsFlags         aws.Flags
	functions        functionFlags
	usages           bool
	moreColumns      bool
	logFormat        string
	limits           limitFlags
	tracing          tracingFlags
}

// controllerDefaults are the defaults in which up and run differ.
type controllerDefaults struct {
	health, metrics string
	moreColumns     bool
	development     bool
}

func (f *controllerFlags) add(cmd *cobra.Command, defaults controllerDefaults) {
	flags := cmd.Flags()
	flags.StringVar(&f.health, "health-probe-bind-address", defaults.health, "address of /healthz and /readyz, such as :8081 in a pod; 0 for none")
	flags.StringVar(&f.metrics, "metrics-bind-address", defaults.metrics, "address of /metrics, such as :8080 in a pod; 0 for none")
	flags.BoolVar(&f.metricsSecure, "metrics-secure", false,
		"serve /metrics over TLS, and only to clients whose token may get the path /metrics (TokenReview and SubjectAccessReview); the details of /readyz?verbose are then at /readyz/verbose of that address")
	flags.StringVar(&f.metricsCertPath, "metrics-cert-path", "",
		"directory with the certificate for --metrics-secure, tls.crt and tls.key; by default a self-signed one")
	flags.StringVar(&f.introspection, "introspection-socket", "",
		"the socket that 'espalier watches' and 'espalier top' connect to, in a directory of mode 0700; by default one for this user and cluster, 0 for none")
	flags.IntVar(&f.workers, "workers", 16, "concurrent reconciles of each kind")
	flags.IntVar(&f.inFlight, "requests-in-flight", inflight.DefaultSeats,
		"how many requests of reconciles are sent to the API server at a time; kinds and namespaces take turns")
	flags.DurationVar(&f.poll, "poll", provider.DefaultPollInterval, "how often external resources without events are read")
	flags.BoolVar(&f.allowCRDDeletion, "allow-crd-deletion", false, "delete the CustomResourceDefinition of a deleted definition, once it has no instances")
	flags.BoolVar(&f.requireAccount, "require-service-account", false,
		"refuse cluster-scoped graph definitions without a service account, whose instances would be reconciled with the controllers' permissions")
	flags.StringSliceVar(&f.resourceGroups.APIGroups, definition.NamespacedGroupsFlag[2:], []string{v1alpha1.GroupVersion.Group},
		"API groups in which ResourceGroups may define kinds; *.example.com for those below example.com, * for all")
	flags.IntVar(&f.resourceGroups.MaxKinds, serving.MaxKindsPerNamespaceFlag[2:], 100,
		"maximum number of kinds that the ResourceGroups of a namespace define; 0 for no limit")
	flags.StringVar(&f.secretOutputs, "secret-outputs", string(graph.RefuseSecretOutputs),
		"what happens to graph definitions that put data of Secrets into the status, conditions, names or labels without allowing it in spec.allowSecretOutputs: Refuse or Warn")
	flags.BoolVar(&f.policies, "admission-policies", true, "install the ValidatingAdmissionPolicies that check which kinds and service accounts definitions name")
	flags.BoolVar(&f.postgresql, "postgresql", false, "serve the kinds of postgresql.espalier.dev, whose external resources are on PostgreSQL servers")
	flags.BoolVar(&f.localServers, "postgresql-local-servers", false,
		"let the ProviderConfigs of namespaces name PostgreSQL servers on this machine, by sockets and loopback")
	flags.BoolVar(&f.aws, "aws", false, "serve the kinds of resource types of AWS that are activated")
	flags.StringVar(&f.awsFlags.TypesFile, "aws-types-file", "", aws.TypesFileUsage)
	flags.BoolVar(&f.awsFlags.LocalEndpoints, "aws-local-endpoints", false, aws.LocalEndpointsUsage)
	flags.BoolVar(&f.awsFlags.NamespacedIdentity, "aws-namespaced-identity", false, aws.NamespacedIdentityUsage)
	f.limits.add(cmd)
	f.tracing.add(cmd)
	f.functions.add(cmd, defaults.development)
	flags.BoolVar(&f.usages, "usages", true,
		"install the kinds Usage and ClusterUsage of protection.crossplane.io, which protect objects in use; where they are installed they are served anyway")
	flags.BoolVar(&f.moreColumns, "more-columns", defaults.moreColumns,
		"add columns to kubectl get for served kinds: the progress of a deletion, and with -o wide why an instance is not ready")
	flags.StringVar(&f.logFormat, "log-format", string(manager.LogText), "how log lines are written: text or json")
	flags.IntVarP(&f.verbosity, "verbosity", "v", 0, "verbosity of the log: 0 to 3")
}

// programName is the name of the controllers in their lease and their user agent.
const programName = "espalier"

func (f *controllerFlags) options(config *rest.Config, log logr.Logger, served packages.Options) (server.ManagerOptions, error) {
	providers, err := f.providers()
	return server.ManagerOptions{
		Options: manager.Options{
			Name: programName, Config: config, Log: log, Version: Version(),
			HealthAddress: f.health, MetricsAddress: f.metrics, MetricsSecure: f.metricsSecure, MetricsCertPath: f.metricsCertPath,
			IntrospectionSocket: f.socket(config),
		},
		Workers: f.workers, RequestsInFlight: f.inFlight, Poll: f.poll, AllowCRDDeletion: f.allowCRDDeletion, RequireServiceAccount: f.requireAccount,
		ResourceGroups: f.resourceGroups, SecretOutputs: graph.SecretOutputs(f.secretOutputs), AdmissionPolicies: f.policies, Limits: f.limits.Limits,
		WatchLimits: f.limits.watches,
		Providers:   providers, Functions: served, Usages: f.usages, AdditionalPrinterColumns: f.moreColumns,
	}, err
}

// providers returns the enabled providers.
func (f *controllerFlags) providers() ([]managed.Provider, error) {
	var out []managed.Provider
	if f.postgresql {
		out = append(out, postgresql.Provider(postgresql.Options{LocalServers: f.localServers}))
	}
	if f.aws {
		p, err := f.awsFlags.Provider()
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// socket is the path of the introspection socket; empty for none.
func (f *controllerFlags) socket(config *rest.Config) string {
	switch f.introspection {
	case "":
		return introspect.SocketPath(config)
	case "0":
		return ""
	}
	return f.introspection
}

// logger writes to the standard error stream.
func (f *controllerFlags) logger(cmd *cobra.Command) logr.Logger {
	return manager.NewLogger(cmd.ErrOrStderr(), manager.LogFormat(f.logFormat), f.verbosity)
}

func (f *controllerFlags) check() error {
	if f.poll < time.Second {
		return &usageError{fmt.Errorf("--poll must be at least a second, not %s", f.poll)}
	}
	if _, err := graph.ParseSecretOutputs(f.secretOutputs); err != nil {
		return &usageError{err}
	}
	if _, err := manager.ParseLogFormat(f.logFormat); err != nil {
		return &usageError{err}
	}
	if err := f.limits.check(); err != nil {
		return err
	}
	if err := f.tracing.check(); err != nil {
		return err
	}
	if f.inFlight < 1 {
		return &usageError{fmt.Errorf("--requests-in-flight must be at least 1, not %d", f.inFlight)}
	}
	if f.workers < 1 {
		return &usageError{fmt.Errorf("--workers must be at least 1, not %d", f.workers)}
	}
	return nil
}

// runFlags are the flags of run.
type runFlags struct {
	controllerFlags
	cluster        clusterFlags
	hook           webhookFlags
	page           runPageFlags
	dialects       dialectFlag
	checkOnly      bool
	leaderElect    bool
	shard          shardFlags
	leaseNamespace string
	lease          time.Duration
}

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the controllers against a cluster",
		Long: "Runs the controllers against the cluster of the kubeconfig, or, inside a pod, the\n" +
			"pod's own. Of several processes one is the leader. Several installations can share a\n" +
			"cluster, each with --watch-namespaces or --watch-label-selector.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

func (f *runFlags) add(cmd *cobra.Command) {
	f.controllerFlags.add(cmd, controllerDefaults{health: "127.0.0.1:8081", metrics: "127.0.0.1:8080"})
	flags := cmd.Flags()
	flags.Var(&f.dialects, "dialects", "which dialects are served; by default those whose CustomResourceDefinitions no other program has installed, since it may be serving them")
	f.hook.add(cmd)
	f.page.add(cmd)
	f.cluster.add(cmd)
	flags.BoolVar(&f.checkOnly, "check", false, "print which CustomResourceDefinitions would be installed, and what prevents that; change nothing")
	flags.BoolVar(&f.leaderElect, "leader-elect", true, "elect a leader, so that one of several processes runs the controllers")
	f.shard.add(cmd, "")
	flags.DurationVar(&f.lease, "leader-elect-lease-duration", 15*time.Second, "how long a process stays the leader after its last renewal of its lease")
	flags.StringVar(&f.leaseNamespace, "leader-election-namespace", "",
		"namespace of the leases, the same for all processes of a cluster; by default the pod's namespace")
}

// run runs the controllers, or only checks whether they would run.
func (f *runFlags) run(cmd *cobra.Command) error {
	options, err := f.managerOptions(cmd)
	if err != nil {
		return err
	}
	if f.checkOnly {
		return checkRun(cmd, options)
	}
	if err := checkAddresses(cmd, &options.Options); err != nil {
		return err
	}
	if err := f.coordinate(&options); err != nil {
		return err
	}
	tracer, flush, err := f.tracing.start(cmd.Context(), options.Log)
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

// managerOptions are the options by the flags, but for those of a process that runs: how it shares the work with others, and
// its traces.
func (f *runFlags) managerOptions(cmd *cobra.Command) (options server.ManagerOptions, err error) {
	if err = f.check(); err != nil {
		return options, err
	}
	served, err := f.functions.options(cmd.ErrOrStderr())
	if err != nil {
		return options, err
	}
	log := f.logger(cmd) // before the first connection, which would silence the libraries
	config, err := f.cluster.config()
	if err != nil {
		return options, err
	}
	if options, err = f.options(config, log, served); err != nil {
		return options, err
	}
	if options.Webhook, err = f.hook.options(); err != nil {
		return options, err
	}
	if options.Page, err = f.page.server(config, options.Log); err != nil {
		return options, err
	}
	options.ReplaceCrossplaneWebhook, options.Dialects = f.hook.replace, f.dialects.all
	options.Shard, err = f.shard.selector()
	return options, err
}

// coordinate sets how this process and others of the cluster share the work.
func (f *runFlags) coordinate(options *server.ManagerOptions) error {
	options.LeaderElection, options.LeaderElectionNamespace, options.LeaseDuration = f.leaderElect, f.leaseNamespace, f.lease
	if !f.leaderElect {
		return nil
	}
	if options.LeaderElectionNamespace == "" {
		options.LeaderElectionNamespace = manager.PodNamespace()
	}
	if options.LeaderElectionNamespace == "" {
		return &usageError{errors.New("--leader-election-namespace is required outside of a pod: all processes of a cluster must have their Leases in the same namespace. --leader-elect=false needs none")}
	}
	return nil
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
	cmd.Flags().StringVar(&f.from, "from", "", "read this archive of 'espalier gather', export, or directory of YAML files in place of a cluster")
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
