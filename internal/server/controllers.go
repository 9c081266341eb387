// Package server wires the program together; nothing else does.
package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/definition"
	"github.com/espalier-dev/espalier/internal/engine"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
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
	// Now tells the time; the wall clock by default.
	Now func() time.Time
}

// Controllers are everything that runs against one API server.
type Controllers struct {
	options  Options
	client   *cluster.Client
	kinds    *cluster.Kinds
	hub      *watch.Hub
	engine   *engine.Engine
	registry *definition.Registry
	crds     *cluster.CRDs
	// started is closed once the controllers of definitions run.
	started chan struct{}
	life    context.Context // of Run
}

// NewControllers prepares the controllers; Run runs them.
func NewControllers(o Options) (*Controllers, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Config = cluster.Prompt(o.Config)
	httpClient, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(o.Config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	disc, err := discovery.NewDiscoveryClientForConfig(bounded(o.Config))
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	c := &Controllers{options: o, kinds: cluster.NewKinds(disc), registry: definition.NewRegistry(), started: make(chan struct{})}
	if c.crds, err = cluster.NewCRDs(o.Config, httpClient, o.Log.WithName("kinds"), c.crdChanged); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	c.client = cluster.NewClient(dyn, c.kinds)
	c.hub = watch.New(watch.Config{
		Client:       dyn,
		Resolve:      c.resolve,
		Enqueue:      func(s watch.Subscriber, cause watch.Cause) { c.engine.Enqueue(s, cause) },
		Managed:      v1alpha1.ApplySetPartOfLabel,
		FieldManager: v1alpha1.ChildManager,
		Rights:       rights,
		Logger:       o.Log.WithName("watch"),
	})
	c.engine = engine.New(engine.Config{Hub: c.hub, Workers: o.Workers, Log: o.Log.WithName("reconcile"), Observe: o.Observe})
	return c, nil
}

// bounded returns a configuration whose requests end: discovery takes no context,
// and an aggregated API may never answer.
func bounded(config *rest.Config) *rest.Config {
	bounded := rest.CopyConfig(config)
	bounded.Timeout = 15 * time.Second
	return bounded
}

// rights are the kinds that grant this program what it may do.
var rights = []schema.GroupVersionKind{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// Hub gives access to the watches, for metrics.
func (c *Controllers) Hub() *watch.Hub { return c.hub }

// Run installs the dialect's kinds and runs the controllers until the context
// ends, or something that can't be repaired fails. It returns when everything
// that it started has ended.
func (c *Controllers) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	c.life = ctx
	group.Go(func() error {
		c.crds.Run(ctx)
		return nil
	})
	group.Go(func() error { return c.hub.Run(ctx) })
	groups := c.followGroups()
	defer groups.Stop()
	group.Go(func() error { return c.engine.Run(ctx) })
	group.Go(func() error {
		// What is known of kinds decides whether objects are gone for good: nothing
		// runs before that is complete.
		select {
		case <-c.crds.Complete():
		case <-ctx.Done():
			return nil
		}
		if err := c.install(ctx); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil
			}
			return err
		}
		for _, kind := range []string{v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind} {
			gvk := v1alpha1.GroupVersion.WithKind(kind)
			c.engine.Start(gvk, definition.New(c.definitionConfig(gvk)), nil)
		}
		close(c.started)
		return nil
	})
	return group.Wait()
}

// Serving says whether definitions are being served: nil when they are.
func (c *Controllers) Serving() error {
	select {
	case <-c.started:
		return nil
	default:
		return errors.New("definitions are not served yet")
	}
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
		Kind: kind, Cluster: c.client, Kinds: c.kinds, Hub: c.hub, Engine: c.engine,
		Events: c.options.Events, Registry: c.registry, Version: c.options.Version,
		AllowCRDDeletion: c.options.AllowCRDDeletion, Now: c.options.Now, Published: c.published,
	}
}

func (c *Controllers) resolve(ctx context.Context, gvk schema.GroupVersionKind) (watch.Resource, error) {
	r, err := c.kinds.Resolve(ctx, gvk)
	if cluster.IsUnavailable(err) {
		_, defined := c.kinds.CRD(gvk.GroupKind())
		return watch.Resource{}, &watch.UnavailableError{Reason: watch.WaitingForKind, Message: err.Error(), Gone: !defined}
	}
	if err != nil {
		return watch.Resource{}, err
	}
	return watch.Resource{GVR: r.GVR, Namespaced: r.Namespaced}, nil
}

func (c *Controllers) wake(key object.Key) {
	c.engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Normal})
}
