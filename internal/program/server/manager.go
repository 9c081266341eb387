package server

import (
	"context"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/protection"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// ManagerOptions configure the whole program.
type ManagerOptions struct {
	manager.Options
	// Workers is how many objects are reconciled concurrently, and RequestsInFlight how many of their requests are sent at a
	// time; 0 is the default.
	Workers, RequestsInFlight int
	AllowCRDDeletion          bool
	// RequireServiceAccount refuses cluster-scoped definitions without a service account.
	RequireServiceAccount bool
	// ResourceGroups bounds which kinds ResourceGroups define.
	ResourceGroups ResourceGroups
	// SecretOutputs is what happens to definitions of graphs that put data of Secrets into
	// outputs; by default they are refused.
	SecretOutputs graph.SecretOutputs
	// Limits bound each instance, and WatchLimits the watches for instances.
	Limits      plan.Limits
	WatchLimits watch.Limits
	// AdmissionPolicies installs the ValidatingAdmissionPolicies of definitions.
	AdmissionPolicies bool
	// AdditionalPrinterColumns adds columns to served kinds in kubectl get, beyond those of their dialects.
	AdditionalPrinterColumns bool
	// Dialects are served even if another program has installed their definitions. Without
	// any, all dialects are served whose definitions no other program has installed.
	Dialects []Dialect
	// Usages installs the kinds of usages. Webhook serves the admission webhook for deletions
	// and the conversion webhook; nil for neither.
	Usages  bool
	Webhook *webhook.Options
	// ReplaceCrossplaneWebhook deletes the webhook configuration of a Crossplane that was
	// stopped, also without a Webhook.
	ReplaceCrossplaneWebhook bool
	// Providers serve managed resources.
	Providers []managed.Provider
	// Poll is how often external resources are observed without an event; 0 for the default.
	Poll time.Duration
	// Functions configure functions beyond the cluster's objects.
	Functions packages.Options
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
			Workers: o.Workers, RequestsInFlight: o.RequestsInFlight, AllowCRDDeletion: o.AllowCRDDeletion, RequireServiceAccount: o.RequireServiceAccount,
			ResourceGroups: o.ResourceGroups, SecretOutputs: o.SecretOutputs, Limits: o.Limits, WatchLimits: o.WatchLimits,
			AdmissionPolicies: o.AdmissionPolicies,
			Providers:         o.Providers, Poll: o.Poll, Functions: o.Functions,
			Version: o.Version, Log: o.Log, Dialects: o.Dialects, Usages: o.Usages, AdditionalPrinterColumns: o.AdditionalPrinterColumns, Needs: needs,
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
			log.Error(err, "deletions of objects with the in-use label may be denied")
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
