// Package server wires the program together; nothing else does.
package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/controller/definition"
	"github.com/espalier-dev/espalier/internal/controller/hold"
	"github.com/espalier-dev/espalier/internal/kernel"
	"github.com/espalier-dev/espalier/internal/outcome"
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
	// Providers serve managed resources.
	Providers []managed.Provider
	// Now tells the time; the wall clock by default.
	Now func() time.Time
}

// Controllers are everything that runs against one API server.
type Controllers struct {
	*kernel.Kernel
	options  Options
	registry *definition.Registry
	gate     *hold.Gate
	// started is closed once the controllers of definitions run.
	started chan struct{}
}

// NewControllers prepares the controllers; Run runs them.
func NewControllers(o Options) (*Controllers, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Controllers{options: o, registry: definition.NewRegistry(), started: make(chan struct{})}
	var err error
	c.Kernel, err = kernel.New(kernel.Options{
		Config: o.Config, Workers: o.Workers, Log: o.Log, Observe: o.Observe,
		Concerned: c.registry.Concerned, Using: c.registry.Using,
	})
	if err != nil {
		return nil, err
	}
	c.gate = &hold.Gate{Cluster: c.Client, Hub: c.Hub, Wake: c.Wake, Now: o.Now, Log: o.Log.WithName("hold")}
	return c, nil
}

// Run installs the dialect's kinds and runs the controllers until the context
// ends, or something that can't be repaired fails. It returns when everything
// that it started has ended.
func (c *Controllers) Run(ctx context.Context) error {
	return c.Kernel.Run(ctx, func(ctx context.Context) error {
		if err := c.install(ctx, espalier.CRDs); err != nil {
			return err
		}
		known := c.gate.Watch()
		if err := c.install(ctx, v1alpha1.CRDs); err != nil {
			return err
		}
		select { // no pass before it is known whether there is a Hold
		case <-known:
		case <-ctx.Done():
			return nil
		}
		if err := c.serveProviders(ctx); err != nil {
			return err
		}
		for _, kind := range []string{v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind} {
			gvk := v1alpha1.GroupVersion.WithKind(kind)
			c.Engine.Start(gvk, definition.New(c.definitionConfig(gvk)), nil)
		}
		close(c.started)
		c.gate.Run(ctx)
		return nil
	})
}

// Serving says whether definitions are being served: nil when they are.
func (c *Controllers) Serving() error {
	select {
	case <-c.started:
		return nil
	default:
	}
	if why := c.gate.Blind(); why != "" {
		return fmt.Errorf("definitions are not served yet: it can't be told whether there is a Hold: %s", why)
	}
	return errors.New("definitions are not served yet")
}

// AwaitServing waits until definitions are being served.
func (c *Controllers) AwaitServing(ctx context.Context) error {
	select {
	case <-c.started:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Controllers) definitionConfig(kind schema.GroupVersionKind) definition.Config {
	return definition.Config{
		Kind: kind, Cluster: c.Client, Kinds: c.Kinds, Hub: c.Hub, Engine: c.Engine,
		Events: c.options.Events, Registry: c.registry, Version: c.options.Version,
		AllowCRDDeletion: c.options.AllowCRDDeletion, Now: c.options.Now, Published: c.Published, Held: c.gate.Keep,
	}
}
