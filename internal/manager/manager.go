// Package manager runs controllers as a program does: one of several processes at a
// time, with probes, metrics and a socket that tells what they watch.
package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/espalier-dev/espalier/internal/manager/cluster"
	"github.com/espalier-dev/espalier/internal/manager/introspect"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Options are how a program presents itself to its surroundings.
type Options struct {
	// Name is the program's, in its user agent, its events and its lease.
	Name    string
	Version string
	Config  *rest.Config
	Log     logr.Logger
	// HealthAddress and MetricsAddress are where probes and metrics are served;
	// "0" for nowhere.
	HealthAddress  string
	MetricsAddress string
	// IntrospectionSocket is the socket on which 'espalier watches' asks this
	// process while it works; empty for none.
	IntrospectionSocket string
	// LeaderElection makes sure that of several processes one works; the lease
	// lives in the given namespace. It lasts for LeaseDuration, by default 15
	// seconds, after its holder was last heard of.
	LeaderElection          bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration
	// Beside runs, if given, in each process, whether it is the one that works or not.
	Beside func(context.Context) error
	// Ready is closed, if given, once the controllers serve.
	Ready chan<- struct{}
}

// Surroundings are what controllers are given.
type Surroundings struct {
	Config  *rest.Config
	Events  telemetry.Recorder
	Observe func(reconcile.Run)
	// Propagated is told of each value's way from the status of one layer to that of the
	// next.
	Propagated func(below, above schema.GroupKind, took time.Duration)
	// Until is until when no other process can be at the same work; zero for as
	// long as this one likes.
	Until func() time.Time
}

// Controllers are what runs while this process is the leader, on a cluster.
type Controllers interface {
	Run(context.Context) error
	Base() *cluster.Cluster
}

// Manager is controllers with leader election, probes and metrics.
type Manager struct{ manager manager.Manager }

// New prepares a manager of the controllers that build returns; Run runs it.
func New(o Options, build func(Surroundings) (Controllers, error)) (*Manager, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = -1, -1 // the server's priority and fairness decides
	config.UserAgent = o.Name + "/" + o.Version
	settings, until, err := o.settings(config)
	if err != nil {
		return nil, err
	}
	m, err := ctrl.NewManager(config, settings)
	if err != nil {
		return nil, fmt.Errorf("prepare to run: %w", err)
	}
	metrics := telemetry.NewMetrics()
	controllers, err := build(Surroundings{
		Config: config, Observe: metrics.Observe, Propagated: metrics.Propagated, Until: until,
		Events: telemetry.NewRecorder(m.GetEventRecorder(o.Name)),
	})
	if err != nil {
		return nil, err
	}
	base := controllers.Base()
	collectors := []prometheus.Collector{base.Watched(), base.Engine.Collector()}
	if more, counts := controllers.(interface{ Collectors() []prometheus.Collector }); counts {
		collectors = append(collectors, more.Collectors()...)
	}
	metrics.Register(collectors...)
	if err := m.Add(leading{controllers, o.Ready, introspection(o, base)}); err != nil {
		return nil, fmt.Errorf("prepare to run: %w", err)
	}
	if o.Beside != nil {
		if err := m.Add(beside(o.Beside)); err != nil {
			return nil, fmt.Errorf("prepare to run: %w", err)
		}
	}
	if err := o.addProbes(m, controllers); err != nil {
		return nil, fmt.Errorf("prepare to run: %w", err)
	}
	return &Manager{m}, nil
}

// addProbes answers probes, where that is wanted.
func (o Options) addProbes(m manager.Manager, controllers Controllers) error {
	if o.HealthAddress == "" || o.HealthAddress == "0" {
		return nil
	}
	h := health{notes: func() []string { return nil }, ready: func() error {
		select {
		case <-m.Elected():
			return controllers.Base().Serving()
		default:
			return nil // ready to take over
		}
	}}
	if noting, notes := controllers.(interface{ Notes() []string }); notes {
		h.notes = noting.Notes
	}
	server, err := h.server(o.HealthAddress, o.Log.WithName("probes"))
	if err != nil {
		return err
	}
	return m.Add(server)
}

// settings are the library's, and until when no other process can be the leader.
func (o Options) settings(config *rest.Config) (manager.Options, func() time.Time, error) {
	drain := 20 * time.Second
	settings := manager.Options{
		Scheme:                  runtime.NewScheme(),
		Logger:                  o.Log,
		HealthProbeBindAddress:  "0", // probes are answered here
		Metrics:                 metricsserver.Options{BindAddress: o.MetricsAddress},
		GracefulShutdownTimeout: &drain,
	}
	if !o.LeaderElection {
		return settings, func() time.Time { return time.Time{} }, nil
	}
	t := timingOf(o.LeaseDuration)
	lock, err := newLease(config, o.LeaderElectionNamespace, LeaseName(o.Name), t)
	if err != nil {
		return settings, nil, err
	}
	settings.LeaderElection = true
	settings.LeaderElectionResourceLockInterface = lock
	settings.LeaderElectionReleaseOnCancel = true
	settings.LeaseDuration, settings.RenewDeadline, settings.RetryPeriod = &t.lease, &t.renew, &t.retry
	return settings, lock.until, nil
}

// LeaseName is the name of the lease that a program of the given name has while it works.
func LeaseName(program string) string { return program + ".espalier.dev" }

// Run runs until the context ends, or this process is no longer the leader,
// which is an error: another has taken over, and this one must not go on.
func (m *Manager) Run(ctx context.Context) error { return m.manager.Start(ctx) }

// beside runs in each process.
type beside func(context.Context) error

func (b beside) NeedLeaderElection() bool { return false }

func (b beside) Start(ctx context.Context) error { return b(ctx) }

// leading runs the controllers while this process is the leader.
type leading struct {
	controllers   Controllers
	ready         chan<- struct{}
	introspection *introspect.Server // or nil
}

// introspection answers what the controllers watch, where that is wanted.
func introspection(o Options, k *cluster.Cluster) *introspect.Server {
	if o.IntrospectionSocket == "" {
		return nil
	}
	return &introspect.Server{Path: o.IntrospectionSocket, Watches: k.Watches, Log: o.Log.WithName("introspect")}
}

func (l leading) NeedLeaderElection() bool { return true }

func (l leading) Start(ctx context.Context) error {
	if l.ready != nil {
		go func() {
			if l.controllers.Base().AwaitServing(ctx) == nil {
				close(l.ready)
			}
		}()
	}
	if l.introspection == nil {
		return l.controllers.Run(ctx)
	}
	answering, stop := context.WithCancel(ctx)
	var answers sync.WaitGroup
	answers.Go(func() { l.introspection.Run(answering) })
	defer answers.Wait() // until its socket is removed
	defer stop()
	return l.controllers.Run(ctx)
}
