package server

import (
	"time"

	"github.com/espalier-dev/espalier/internal/controller/functions"
	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// ManagerOptions are what a whole program needs to know.
type ManagerOptions struct {
	manager.Options
	// Workers is how many objects are worked on side by side.
	Workers          int
	AllowCRDDeletion bool
	// Providers serve managed resources.
	Providers []managed.Provider
	// Poll is how often external resources are looked at that nothing happens to; 0
	// is what it is by default.
	Poll time.Duration
	// Functions say what is known of functions beside the cluster's objects.
	Functions functions.Options
}

// NewManager prepares the controllers with leader election, probes and metrics.
func NewManager(o ManagerOptions) (*manager.Manager, error) {
	return manager.New(o.Options, func(s manager.Surroundings) (manager.Controllers, error) {
		return NewControllers(Options{
			Config: s.Config, Events: s.Events, Observe: s.Observe, Until: s.Until,
			Workers: o.Workers, AllowCRDDeletion: o.AllowCRDDeletion, Providers: o.Providers, Poll: o.Poll, Functions: o.Functions,
			Version: o.Version, Log: o.Log,
		})
	})
}
