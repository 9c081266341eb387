// Package serve contains the main function of a provider that runs as a program of its own.
package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/managed/provider"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// Main runs the controllers of a provider's kinds until the program is interrupted, with the
// options from the command line. It uses the kubeconfig, or in a pod the pod's cluster. It
// exits with code 1 and a message after a failure, and with 2 if the flags are invalid.
func Main(p managed.Provider) {
	MainOf(Program{Name: p.Name, Provider: func() (managed.Provider, error) { return p, nil }})
}

// Program is a provider with flags of its own.
type Program struct {
	// Name is the provider's name.
	Name string
	// Flags adds flags. It is optional.
	Flags func(*flag.FlagSet)
	// Provider returns the provider. It is called once the flags are parsed.
	Provider func() (managed.Provider, error)
}

// MainOf is Main for a provider with flags of its own.
func MainOf(p Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := RunOf(ctx, p, os.Args[1:], os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, ErrUsage):
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

// ErrUsage is returned by Run for invalid flags, which have been reported to the user.
var ErrUsage = errors.New("invalid flags")

// settings are the values of the flags.
type settings struct {
	kubeconfig, context string
	health, metrics     string
	metricsSecure       bool
	metricsCertPath     string
	poll                time.Duration
	workers, verbosity  int
	elect               bool
	namespace           string
	logFormat           string
	lease               time.Duration
	namespaces, labels  string
	shard               shard.Selector
}

func parse(name string, more func(*flag.FlagSet), args []string, out io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(out)
	if more != nil {
		more(flags)
	}
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "the kubeconfig file; by default $KUBECONFIG, or ~/.kube/config, or the pod's own")
	flags.StringVar(&s.context, "context", "", "the context of the kubeconfig; by default its current one")
	flags.StringVar(&s.health, "health-probe-bind-address", "0", "address of /healthz and /readyz, such as :8081; 0 for none")
	flags.StringVar(&s.metrics, "metrics-bind-address", "0", "address of /metrics, such as :8080; 0 for none")
	flags.BoolVar(&s.metricsSecure, "metrics-secure", false,
		"serve /metrics over TLS, to clients whose token is allowed to get it; needs permission to create tokenreviews and subjectaccessreviews")
	flags.StringVar(&s.metricsCertPath, "metrics-cert-path", "",
		"directory with the certificate for --metrics-secure, tls.crt and tls.key; by default a self-signed one")
	flags.IntVar(&s.workers, "workers", 16, "concurrent reconciles of each kind")
	flags.StringVar(&s.logFormat, "log-format", string(manager.LogText), "format of the log: text or json")
	flags.IntVar(&s.verbosity, "v", 0, "verbosity of the log: 0 to 3")
	flags.DurationVar(&s.poll, "poll", provider.DefaultPollInterval, "how often external resources are observed without an event")
	flags.BoolVar(&s.elect, "leader-elect", true, "elect a leader, so that only one of several processes runs the controllers")
	flags.StringVar(&s.namespace, "leader-election-namespace", "",
		"namespace of the lease, the same for all processes of a cluster; by default the pod's namespace")
	flags.DurationVar(&s.lease, "leader-elect-lease-duration", 15*time.Second, "how long a process stays the leader after its last renewal of the lease")
	flags.StringVar(&s.namespaces, shard.NamespacesFlag, "",
		"namespaces to work in, separated by commas, or to leave out with !NAMESPACE; cluster-scoped objects go to the installation that leaves some out")
	flags.StringVar(&s.labels, shard.LabelsFlag, "", "label selector of the managed resources to work on")
	flags.VisitAll(func(f *flag.Flag) { f.Usage = wrap(f.Usage) })
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return s, err
	} else if err != nil {
		return s, ErrUsage
	}
	switch {
	case flags.NArg() > 0:
		fmt.Fprintf(out, "%s: unexpected argument %q: only flags are accepted\n", name, flags.Arg(0))
		return s, ErrUsage
	case s.workers < 1:
		fmt.Fprintf(out, "%s: --workers is %d; it must be at least 1\n", name, s.workers)
		return s, ErrUsage
	case s.poll < time.Second:
		fmt.Fprintf(out, "%s: --poll is %s; it must be at least 1s\n", name, s.poll)
		return s, ErrUsage
	}
	var err error
	if s.shard, err = shard.Parse(strings.FieldsFunc(s.namespaces, func(r rune) bool { return r == ',' }), s.labels); err != nil {
		fmt.Fprintf(out, "%s: %v\n", name, err)
		return s, ErrUsage
	}
	return s, nil
}

// maxUsage is how wide what a flag means is printed, without its indentation and its default.
const maxUsage = 72

func wrap(usage string) string {
	var b strings.Builder
	diag.WrapHanging(&b, "", strings.Fields(usage), maxUsage)
	return strings.TrimRight(b.String(), "\n")
}

// Run is Main with the given arguments and output; it runs until the context ends.
func Run(ctx context.Context, p managed.Provider, args []string, out io.Writer) error {
	return RunOf(ctx, Program{Name: p.Name, Provider: func() (managed.Provider, error) { return p, nil }}, args, out)
}

// RunOf is Run for a provider with flags of its own.
func RunOf(ctx context.Context, program Program, args []string, out io.Writer) error {
	s, err := parse(program.Name, program.Flags, args, out)
	if err != nil {
		return err
	}
	p, err := program.Provider()
	if err != nil {
		return err
	}
	config, err := manager.Kubeconfig{Path: s.kubeconfig, Context: s.context}.Config()
	if err != nil {
		return err
	}
	if s.namespace == "" {
		s.namespace = manager.PodNamespace()
	}
	if s.elect && s.namespace == "" {
		fmt.Fprintf(out, "%s: --leader-election-namespace is required outside of a pod: all processes must elect their leader in the same namespace. --leader-elect=false elects none\n", p.Name)
		return ErrUsage
	}
	format, err := manager.ParseLogFormat(s.logFormat)
	if err != nil {
		return err
	}
	log := manager.NewLogger(out, format, s.verbosity)
	m, err := manager.New(manager.Options{
		Name: p.Name, Version: version(), Config: config, Log: log,
		HealthAddress: s.health, MetricsAddress: s.metrics, MetricsSecure: s.metricsSecure, MetricsCertPath: s.metricsCertPath,
		LeaderElection: s.elect, LeaderElectionNamespace: s.namespace, LeaseDuration: s.lease, Shard: s.shard,
	}, func(env manager.Environment) (manager.Controllers, error) {
		return newControllers(p, s, log, env)
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// version returns the version of the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	return "devel"
}

// controllers runs the controllers of one provider.
type controllers struct {
	*cluster.Cluster
	options provider.Options
}

func newControllers(p managed.Provider, s settings, log logr.Logger, env manager.Environment) (manager.Controllers, error) {
	providers := []managed.Provider{p}
	k, err := cluster.New(cluster.Options{
		Config: env.Config, Workers: s.workers, Log: log, Observe: env.Observe, ExtraCRDs: cluster.InstallAlways(provider.CRDs(providers)),
		Lease: env.Lease, Shard: s.shard, Installations: env.Installations,
		ClusterRolesOnly: true,
		Remedy:           func(kind schema.GroupKind) string { return provider.Remedy(providers, kind) },
		CRDDependents: func(crd *apiextensionsv1.CustomResourceDefinition) []object.Key {
			return provider.Dependents(providers, crd)
		},
	})
	if err != nil {
		return nil, err
	}
	return controllers{k, provider.Options{Providers: providers, PollInterval: s.poll, Events: env.Events, Now: time.Now, LeaderUntil: env.LeaderUntil,
		Leader: env.Leader}}, nil
}

// Run runs the controllers until the context ends.
func (c controllers) Run(ctx context.Context) error {
	return c.Cluster.Run(ctx, func(ctx context.Context) error { return provider.Start(ctx, c.Cluster, c.options) })
}
