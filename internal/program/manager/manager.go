// Package manager runs controllers with leader election, probes, metrics and a socket for
// introspection.
package manager

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Options configure a manager.
type Options struct {
	// Name is the program's name in its user agent, its events and its lease.
	Name    string
	Version string
	Config  *rest.Config
	Log     logr.Logger
	// Tracer makes spans of what the controllers do; nil for none.
	Tracer *tracing.Tracer
	// HealthAddress and MetricsAddress are the addresses of probes and metrics; "0" for
	// none.
	HealthAddress  string
	MetricsAddress string
	// MetricsSecure serves metrics with TLS, to users only who may get the path /metrics, and
	// moves the details of readiness there. It has the certificate in MetricsCertPath, by
	// default a self-signed one.
	MetricsSecure   bool
	MetricsCertPath string
	// IntrospectionSocket is the path of the socket that serves 'espalier watches' and 'espalier top'
	// while this process is the leader; empty for none.
	IntrospectionSocket string
	// LeaderElection makes one of several processes the leader; the lease is in the given
	// namespace. It expires LeaseDuration, by default 15 seconds, after its last renewal.
	LeaderElection          bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration
	// Shard selects the objects that this installation works on, if several share the cluster: each has a lease of its own,
	// all in one namespace. The leader does nothing while another installation would work on the same objects.
	Shard shard.Selector
	// EveryReplica, if given, runs in each process, whether it is the leader or not.
	EveryReplica func(context.Context) error
	// Page, if given, runs in each process too, and may read what this one watches.
	Page func(context.Context, Introspection) error
	// Ready, if given, is closed once the controllers run.
	Ready chan<- struct{}
}

// Environment is what the manager provides to controllers.
type Environment struct {
	Config  *rest.Config
	Events  telemetry.Recorder
	Observe func(reconcile.Run)
	// Tracer makes spans; nil for none.
	Tracer *tracing.Tracer
	// ObservePropagation is called with how long a value took from the status of one kind
	// to that of the kind above.
	ObservePropagation func(below, above schema.GroupKind, took time.Duration)
	// LeaderUntil returns the time until which no other process can become the leader; zero
	// without leader election.
	LeaderUntil func() time.Time
	// Leader returns this process, as its lease names it, and the epoch of its leadership: a
	// later leader has a larger one. The holder is empty without leader election.
	Leader func() (holder string, epoch int64)
	// Lease is the lease of the leader election; empty without one.
	Lease cluster.Lease
	// Installations returns the names of the leases of all installations that run; nil without leader election.
	Installations func(context.Context) ([]string, error)
}

// Controllers run on a cluster while this process is the leader.
type Controllers interface {
	Run(context.Context) error
	Base() *cluster.Cluster
}

// Introspection reads the watches and queues of this process.
type Introspection struct {
	// Leads reports whether the controllers run in this process. If not, there are no watches.
	Leads   func() bool
	Watches func() []introspect.Watch
	Queues  func() []introspect.Queue
}

func introspectionOf(elected <-chan struct{}, base *cluster.Cluster) Introspection {
	return Introspection{
		Leads: func() bool {
			select {
			case <-elected:
				return true
			default:
				return false
			}
		},
		Watches: func() []introspect.Watch { return introspect.Watches(base.Watches()) },
		Queues:  func() []introspect.Queue { return introspect.Queues(base.Engine.Stats()) },
	}
}

// Manager runs controllers with leader election, probes and metrics.
type Manager struct {
	manager manager.Manager
	socket  string // of the introspection; empty for none
}

// New returns a manager of the controllers that build returns; Run runs it.
func New(o Options, build func(Environment) (Controllers, error)) (*Manager, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = -1, -1 // the API server's priority and fairness limits requests
	config.UserAgent = o.Name + "/" + o.Version
	if err := o.checkMetrics(); err != nil {
		return nil, err
	}
	settings, lock, err := o.settings(config)
	if err != nil {
		return nil, err
	}
	m, err := ctrl.NewManager(config, settings)
	if err != nil {
		return nil, fmt.Errorf("prepare the manager: %w", err)
	}
	metrics := telemetry.NewMetrics()
	env := Environment{
		Config: config, Observe: metrics.Observe, Tracer: o.Tracer, ObservePropagation: metrics.ObservePropagation,
		Events: telemetry.NewRecorder(m.GetEventRecorder(o.Name)),
	}
	var installations *installations
	if lock != nil {
		if installations, err = newInstallations(o, config); err != nil {
			return nil, err
		}
		env.Lease, env.LeaderUntil, env.Leader, env.Installations = o.electionLease(), lock.heldUntil, lock.leader, installations.running
	} else {
		env.LeaderUntil, env.Leader = func() time.Time { return time.Time{} }, func() (string, int64) { return "", 0 }
	}
	controllers, err := build(env)
	if err != nil {
		return nil, err
	}
	metrics.Register(collectors(controllers)...)
	if err := o.addRunnables(m, controllers, installations); err != nil {
		return nil, fmt.Errorf("prepare the manager: %w", err)
	}
	return &Manager{m, o.IntrospectionSocket}, nil
}

// collectors returns the collectors of the controllers' metrics.
func collectors(controllers Controllers) []prometheus.Collector {
	base := controllers.Base()
	out := []prometheus.Collector{base.WatchCollector(), base.Engine.Collector(), base.Requests}
	if more, ok := controllers.(interface{ Collectors() []prometheus.Collector }); ok {
		out = append(out, more.Collectors()...)
	}
	return out
}

// addRunnables adds all that the manager runs.
func (o Options) addRunnables(m manager.Manager, controllers Controllers, others *installations) error {
	base := controllers.Base()
	if err := m.Add(leaderRunnable{controllers, o.Ready, introspection(o, base), others}); err != nil {
		return err
	}
	if o.EveryReplica != nil {
		if err := m.Add(everyReplica(o.EveryReplica)); err != nil {
			return err
		}
	}
	if o.Page != nil {
		view := introspectionOf(m.Elected(), base)
		if err := m.Add(everyReplica(func(ctx context.Context) error { return o.Page(ctx, view) })); err != nil {
			return err
		}
	}
	return o.addProbes(m, controllers, others)
}

// addProbes adds the server of the probes, if it has an address. With MetricsSecure it gives no
// details, which the metrics server has.
func (o Options) addProbes(m manager.Manager, controllers Controllers, others *installations) error {
	h := health{notes: func() []string { return nil }, ready: func() error {
		select {
		case <-m.Elected():
			if others.wait() != "" {
				return nil // as for another leader: a rollout that replaces the other installation goes on
			}
			return controllers.Base().CheckStarted()
		default:
			return nil // not the leader: ready to become it
		}
	}}
	if noter, ok := controllers.(interface{ Notes() []string }); ok {
		h.notes = noter.Notes
	}
	if o.MetricsSecure {
		if err := m.AddMetricsServerExtraHandler(readyzDetails, http.HandlerFunc(h.details)); err != nil {
			return err
		}
		h.withoutDetails = true
	}
	if o.HealthAddress == "" || o.HealthAddress == "0" {
		return nil
	}
	server, err := h.server(o.HealthAddress, o.Log.WithName("probes"))
	if err != nil {
		return err
	}
	return m.Add(server)
}

// settings returns the options of controller-runtime's manager, and the lease; nil without leader
// election.
func (o Options) settings(config *rest.Config) (manager.Options, *lease, error) {
	drain := 20 * time.Second
	settings := manager.Options{
		Scheme:                  runtime.NewScheme(),
		Logger:                  o.Log,
		HealthProbeBindAddress:  "0", // addProbes serves them
		Metrics:                 o.metricsServer(),
		GracefulShutdownTimeout: &drain,
	}
	if !o.LeaderElection {
		return settings, nil, nil
	}
	t := timingFor(o.LeaseDuration)
	lock, err := newLease(config, o.electionLease(), t)
	if err != nil {
		return settings, nil, err
	}
	settings.LeaderElection = true
	settings.LeaderElectionID = o.electionLease().Name // the label name of its metrics
	settings.LeaderElectionResourceLockInterface = lock
	settings.LeaderElectionReleaseOnCancel = true
	settings.LeaseDuration, settings.RenewDeadline, settings.RetryPeriod = &t.lease, &t.renew, &t.retry
	return settings, lock, nil
}

// LeaseName is the name of the lease of a program of the given name. Those of its installations that share a cluster with
// others have names that begin with it and a hyphen.
func LeaseName(program string) string { return program + ".espalier.dev" }

// IsLeaseOf reports whether a lease of that name is of an installation of the program.
func IsLeaseOf(program, lease string) bool {
	return lease == LeaseName(program) || strings.HasPrefix(lease, LeaseName(program)+"-")
}

// ShardLeaseName is the name of the lease of an installation that works on the selected objects.
func ShardLeaseName(program string, s shard.Selector) string {
	if s.All() {
		return LeaseName(program)
	}
	return LeaseName(program) + "-" + object.Digest(s.String())[:10]
}

// electionLease is the lease by which this process coordinates with others; empty if it does not.
func (o Options) electionLease() cluster.Lease {
	if !o.LeaderElection {
		return cluster.Lease{}
	}
	return cluster.Lease{Namespace: o.LeaderElectionNamespace, Name: ShardLeaseName(o.Name, o.Shard), Program: LeaseName(o.Name)}
}

// Run runs until the context ends. It returns an error if this process loses the lease:
// another one is the leader, and this one must stop. It returns one at once if a process
// without a Lease listens on the introspection socket: both would reconcile the cluster.
func (m *Manager) Run(ctx context.Context) error {
	if m.socket != "" {
		if err := introspect.CheckCoordination(ctx, m.socket); err != nil {
			return err
		}
	}
	return m.manager.Start(ctx)
}

// everyReplica runs in each process.
type everyReplica func(context.Context) error

func (b everyReplica) NeedLeaderElection() bool { return false }

func (b everyReplica) Start(ctx context.Context) error { return b(ctx) }

// leaderRunnable runs the controllers while this process is the leader.
type leaderRunnable struct {
	controllers   Controllers
	ready         chan<- struct{}
	introspection *introspect.Server // or nil
	others        *installations     // or nil
}

// introspection returns the server of the introspection socket; nil if it has no path.
func introspection(o Options, k *cluster.Cluster) *introspect.Server {
	if o.IntrospectionSocket == "" {
		return nil
	}
	return &introspect.Server{Lease: o.electionLease().String(), Path: o.IntrospectionSocket, Watches: k.Watches, Queues: k.Engine.Stats,
		Profile: func() profile.Reading { return k.Profile(time.Now()) }, Log: o.Log.WithName("introspect")}
}

func (l leaderRunnable) NeedLeaderElection() bool { return true }

func (l leaderRunnable) Start(ctx context.Context) error {
	if l.ready != nil {
		go func() {
			if l.controllers.Base().WaitStarted(ctx) == nil {
				close(l.ready)
			}
		}()
	}
	serving, stop := context.WithCancel(ctx)
	var server sync.WaitGroup
	if l.introspection != nil {
		server.Go(func() { l.introspection.Run(serving) })
	}
	defer server.Wait() // until its socket is removed
	defer stop()
	if err := l.others.awaitDisjoint(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return l.controllers.Run(ctx)
}
