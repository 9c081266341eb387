package server

import (
	"context"
	"sync"

	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/protection"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// ManagerOptions configure the whole program.
type ManagerOptions struct {
	manager.Options
	Settings
	// OneUser is as in Options.
	OneUser bool
	// Webhook serves the admission webhook for deletions and the conversion webhook; nil for neither.
	Webhook *webhook.Options
	// ReplaceCrossplaneWebhook deletes the webhook configuration of a Crossplane that was
	// stopped, also without a Webhook.
	ReplaceCrossplaneWebhook bool
	// Providers serve managed resources.
	Providers []managed.Provider
	// Functions configure functions beyond the cluster's objects.
	Functions packages.Options
	// Packages is as in Options.
	Packages *PackageOptions
	// Operations is as in Options.
	Operations *OperationOptions
}

// NewManager prepares the controllers with leader election, probes and metrics.
func NewManager(o ManagerOptions) (*manager.Manager, error) {
	needs, err := Needs(o)
	if err != nil {
		return nil, err
	}
	var c *Controllers
	o.EveryReplica = func(ctx context.Context) error { return runInEveryReplica(ctx, c, o) }
	return manager.New(o.Options, func(s manager.Environment) (manager.Controllers, error) {
		var err error
		c, err = NewControllers(Options{
			Config: s.Config, Events: s.Events, Observe: s.Observe, Tracer: s.Tracer, ObservePropagation: s.ObservePropagation, LeaderUntil: s.LeaderUntil,
			Leader: s.Leader, Lease: s.Lease, Shard: o.Shard, Installations: s.Installations, SigningKeyNamespace: o.LeaderElectionNamespace,
			Settings: o.Settings, OneUser: o.OneUser, Providers: o.Providers, Functions: o.Functions, Packages: o.Packages, Operations: o.Operations, Version: o.Version, Log: o.Log, Needs: needs,
		})
		if err == nil && o.Webhook != nil {
			c.conversions.expectEndpoint()
		}
		return c, err
	})
}

// runInEveryReplica runs in every process, leader or not. It checks the controllers' permissions, and
// serves the webhooks if they are configured. Otherwise it deletes the webhook configuration.
func runInEveryReplica(ctx context.Context, c *Controllers, o ManagerOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	var checks sync.WaitGroup
	checks.Go(func() { c.permissions.run(ctx) })
	defer checks.Wait()
	defer cancel() // also if the webhooks fail
	log := c.options.Log.WithName("webhook")
	if o.Webhook == nil {
		if o.Shard.All() { // otherwise it may be that of another installation
			webhook.RemoveConfiguration(ctx, c.Client, log)
		}
		if err := webhook.ReplaceForeign(ctx, c.Client, o.ReplaceCrossplaneWebhook, log); err != nil && ctx.Err() == nil {
			log.Error(err, "deletions of objects with the in-use label can be denied")
		}
		<-ctx.Done() // until then the permissions are checked
		return nil
	}
	options := *o.Webhook
	options.ReplaceForeign = o.ReplaceCrossplaneWebhook
	definitions, err := webhook.NewClusterCRDs(c.Client, c.options.Config)
	if err != nil {
		return err
	}
	s := &webhook.Server{
		Options: options, Cluster: c.Client, Now: c.options.Now, Log: log,
		Usages:     webhook.NewClusterUsages(c.usages.index, c.Client, protection.RefusedDeletions{Cluster: c.Client}),
		Converters: webhook.NewConverterCache(definitions),
		OnEndpoint: c.conversions.setEndpoint,
		IsLeader:   func() bool { return c.CheckStarted() == nil },
	}
	return s.Run(ctx)
}
