// Package server wires the program together; nothing else does.
package server

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/controller/definition"
	"github.com/espalier-dev/espalier/internal/kernel"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/provide"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// Options are what the controllers need to know.
type Options struct {
	// Config is how to reach the API server.
	Config *rest.Config
	// Workers is how many objects are worked on side by side.
	Workers int
	// AllowCRDDeletion removes the CustomResourceDefinition of a deleted
	// definition without instances.
	AllowCRDDeletion bool
	// Version is this program's version.
	Version string
	Log     logr.Logger
	Events  telemetry.Recorder
	// Observe is told of each pass; optional.
	Observe func(outcome.Pass)
	// Usages installs the kinds of usages. Those that there are, are served anyway.
	Usages bool
	// Providers serve managed resources.
	Providers []managed.Provider
	// Poll is how often external resources are looked at that nothing happens to; 0
	// is what it is by default.
	Poll time.Duration
	// Until is until when no other process can be at the same work; optional, and
	// zero for as long as this one likes.
	Until func() time.Time
	// Now tells the time; the wall clock by default.
	Now func() time.Time
}

// Controllers are everything that runs against one API server.
type Controllers struct {
	*kernel.Kernel
	options  Options
	registry *definition.Registry
	usages   *usages
}

// NewControllers prepares the controllers; Run runs them.
func NewControllers(o Options) (*Controllers, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Controllers{options: o, registry: definition.NewRegistry()}
	var err error
	c.Kernel, err = kernel.New(kernel.Options{
		Config: o.Config, Workers: o.Workers, Log: o.Log, Observe: o.Observe,
		Concerned: c.concerned, Using: c.registry.Using,
	})
	if err != nil {
		return nil, err
	}
	c.usages = newUsages(c.Kernel, o)
	return c, nil
}

// Run installs the dialect's kinds and runs the controllers until the context
// ends, or something that can't be repaired fails. It returns when everything
// that it started has ended.
func (c *Controllers) Run(ctx context.Context) error {
	return c.Kernel.Run(ctx, func(ctx context.Context) error {
		if err := c.Install(ctx, v1alpha1.CRDs); err != nil {
			return err
		}
		if err := c.usages.begin(ctx, c.options.Usages); err != nil {
			return err
		}
		if err := provide.Start(ctx, c.Kernel, provide.Options{Providers: c.options.Providers, Events: c.options.Events, Poll: c.options.Poll, Now: c.options.Now, Until: c.options.Until, Usages: c.usages.book}); err != nil {
			return err
		}
		for _, kind := range []string{v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind} {
			gvk := v1alpha1.GroupVersion.WithKind(kind)
			c.Engine.Start(gvk, definition.New(c.definitionConfig(gvk)), nil)
		}
		return nil
	})
}

func (c *Controllers) definitionConfig(kind schema.GroupVersionKind) definition.Config {
	return definition.Config{
		Kind: kind, Cluster: c.Client, Kinds: c.Kinds, Hub: c.Hub, Engine: c.Engine,
		Events: c.options.Events, Registry: c.registry, Version: c.options.Version,
		AllowCRDDeletion: c.options.AllowCRDDeletion, Now: c.options.Now, Published: c.Published, Held: c.Gate.Keep,
		Usages: c.usages.book,
	}
}
