package server

import (
	"context"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/internal/functions/packages"
	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/webhook"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// ManagerOptions are what a whole program needs to know.
type ManagerOptions struct {
	manager.Options
	// Workers is how many objects are worked on side by side.
	Workers          int
	AllowCRDDeletion bool
	// MoreColumns has kubectl get show more of served kinds than their dialects' columns.
	MoreColumns bool
	// Dialects are those that are served, also beside another program that has installed
	// them. None stands for all whose definitions no other program has installed.
	Dialects []Dialect
	// Usages installs the kinds of usages, and Webhook lets the API server ask before it
	// deletes what is in use, and have objects converted; nil for not.
	Usages  bool
	Webhook *webhook.Options
	// ReplaceCrossplaneWebhook deletes the configuration by which the API server asks a
	// Crossplane that doesn't run any more, also without a Webhook.
	ReplaceCrossplaneWebhook bool
	// Providers serve managed resources.
	Providers []managed.Provider
	// Poll is how often external resources are looked at that nothing happens to; 0
	// is what it is by default.
	Poll time.Duration
	// Functions say what is known of functions beside the cluster's objects.
	Functions packages.Options
}

// NewManager prepares the controllers with leader election, probes and metrics.
func NewManager(o ManagerOptions) (*manager.Manager, error) {
	needs, err := Needs(o)
	if err != nil {
		return nil, err
	}
	var c *Controllers
	o.Beside = func(ctx context.Context) error { return beside(ctx, c, o) }
	return manager.New(o.Options, func(s manager.Surroundings) (manager.Controllers, error) {
		var err error
		c, err = NewControllers(Options{
			Config: s.Config, Events: s.Events, Observe: s.Observe, Propagated: s.Propagated, Until: s.Until,
			Workers: o.Workers, AllowCRDDeletion: o.AllowCRDDeletion, Providers: o.Providers, Poll: o.Poll, Functions: o.Functions,
			Version: o.Version, Log: o.Log, Dialects: o.Dialects, Usages: o.Usages, MoreColumns: o.MoreColumns, Needs: needs,
		})
		if err == nil && o.Webhook != nil {
			c.conversions.plan()
		}
		return c, err
	})
}

// beside finds out what the controllers may do. It answers the API server about what is in
// use, and converts objects for it, if that is wanted, and otherwise sees to it that it
// doesn't ask about what is in use.
func beside(ctx context.Context, c *Controllers, o ManagerOptions) error {
	var asking sync.WaitGroup
	asking.Go(func() { c.permissions.run(ctx) })
	defer asking.Wait()
	log := c.options.Log.WithName("webhook")
	if o.Webhook == nil {
		webhook.Remove(ctx, c.Client, log)
		if err := webhook.ReplaceForeign(ctx, c.Client, o.ReplaceCrossplaneWebhook, log); err != nil && ctx.Err() == nil {
			log.Error(err, "deletions of what is in use may be refused")
		}
		return nil
	}
	options := *o.Webhook
	options.ReplaceForeign = o.ReplaceCrossplaneWebhook
	s := &webhook.Server{
		Options: options, Cluster: c.Client, Now: c.options.Now, Log: log,
		Uses:       webhook.Known{Book: c.usages.index, Cluster: c.Client},
		Converters: &webhook.Compiled{Reader: c.Client},
		Announce:   c.conversions.announce,
		Leads:      func() bool { return c.Serving() == nil },
	}
	return s.Run(ctx)
}
