package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/espalier-dev/espalier/internal/introspect"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// ManagerOptions are how the program presents itself to its surroundings.
type ManagerOptions struct {
	Config           *rest.Config
	Workers          int
	AllowCRDDeletion bool
	Version          string
	Log              logr.Logger
	// HealthAddress and MetricsAddress are where probes and metrics are served;
	// "0" for nowhere.
	HealthAddress  string
	MetricsAddress string
	// IntrospectionSocket is the socket on which 'espalier watches' asks this
	// process while it works; empty for none.
	IntrospectionSocket string
	// LeaderElection makes sure that of several processes one works; the lease
	// lives in the given namespace.
	LeaderElection          bool
	LeaderElectionNamespace string
	// Providers serve managed resources.
	Providers []managed.Provider
	// Ready is closed, if given, once the controllers serve.
	Ready chan<- struct{}
}

// Manager is the controllers with leader election, probes and metrics.
type Manager struct{ manager manager.Manager }

// leaseName is the lease that processes compete for.
const leaseName = "espalier.espalier.dev"

// NewManager prepares a manager; Run runs it.
func NewManager(o ManagerOptions) (*Manager, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = -1, -1 // the server's priority and fairness decides
	config.UserAgent = "espalier/" + o.Version
	drain := 20 * time.Second
	m, err := ctrl.NewManager(config, manager.Options{
		Scheme:                        runtime.NewScheme(),
		Logger:                        o.Log,
		HealthProbeBindAddress:        o.HealthAddress,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsAddress},
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &drain,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare to run: %w", err)
	}
	metrics := telemetry.NewMetrics()
	controllers, err := NewControllers(Options{
		Config:           config,
		Workers:          o.Workers,
		AllowCRDDeletion: o.AllowCRDDeletion,
		Providers:        o.Providers,
		Version:          o.Version,
		Log:              o.Log,
		Events:           telemetry.NewRecorder(m.GetEventRecorder("espalier")),
		Observe:          metrics.Observe,
	})
	if err != nil {
		return nil, err
	}
	metrics.Register(controllers.Hub.Collector(), controllers.Engine.Collector())
	if err := m.Add(leading{controllers, o.Ready, introspection(o, controllers)}); err != nil {
		return nil, fmt.Errorf("prepare to run: %w", err)
	}
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("prepare to run: %w", err)
	}
	ready := func(*http.Request) error {
		select {
		case <-m.Elected():
			return controllers.Serving()
		default:
			return nil // ready to take over
		}
	}
	if err := m.AddReadyzCheck("controllers", ready); err != nil {
		return nil, fmt.Errorf("prepare to run: %w", err)
	}
	return &Manager{m}, nil
}

// Run runs until the context ends, or this process is no longer the leader,
// which is an error: another has taken over, and this one must not go on.
func (m *Manager) Run(ctx context.Context) error { return m.manager.Start(ctx) }

// leading runs the controllers while this process is the leader.
type leading struct {
	controllers   *Controllers
	ready         chan<- struct{}
	introspection *introspect.Server // or nil
}

// introspection answers what the controllers watch, where that is wanted.
func introspection(o ManagerOptions, c *Controllers) *introspect.Server {
	if o.IntrospectionSocket == "" {
		return nil
	}
	return &introspect.Server{Path: o.IntrospectionSocket, Watches: c.Hub.Stats, Log: o.Log.WithName("introspect")}
}

func (l leading) NeedLeaderElection() bool { return true }

func (l leading) Start(ctx context.Context) error {
	if l.ready != nil {
		go func() {
			if l.controllers.AwaitServing(ctx) == nil {
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
