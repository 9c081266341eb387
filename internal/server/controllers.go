// Package server wires the program together; nothing else does.
package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

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
	Observe func(kind schema.GroupVersionKind, took time.Duration, out outcome.Outcome)
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
	crds     cache.SharedIndexInformer
	// started is closed once the controllers of definitions run.
	started chan struct{}
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
	disc, err := discovery.NewDiscoveryClientForConfigAndClient(o.Config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	crds, err := crdInformer(o.Config, httpClient)
	if err != nil {
		return nil, err
	}
	c := &Controllers{options: o, kinds: cluster.NewKinds(disc), registry: definition.NewRegistry(), crds: crds, started: make(chan struct{})}
	c.client = cluster.NewClient(dyn, c.kinds)
	c.hub = watch.New(watch.Config{
		Client:       dyn,
		Resolve:      c.resolve,
		Enqueue:      func(s watch.Subscriber, cause watch.Cause) { c.engine.Enqueue(s, cause) },
		Managed:      v1alpha1.ApplySetPartOfLabel,
		FieldManager: v1alpha1.ChildManager,
		Logger:       o.Log.WithName("watch"),
	})
	c.engine = engine.New(engine.Config{Hub: c.hub, Workers: o.Workers, Log: o.Log.WithName("reconcile"), Observe: o.Observe})
	return c, nil
}

// Hub gives access to the watches, for metrics.
func (c *Controllers) Hub() *watch.Hub { return c.hub }

// crdInformer watches CustomResourceDefinitions, without the texts that make
// them large and that nothing here reads.
func crdInformer(config *rest.Config, httpClient *http.Client) (cache.SharedIndexInformer, error) {
	client, err := apiextensions.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	lw := listWatch(api.List, api.Watch)
	informer := cache.NewSharedIndexInformer(lw, &apiextensionsv1.CustomResourceDefinition{}, 0, cache.Indexers{})
	return informer, informer.SetTransform(slim)
}

// Run installs the dialect's kinds and runs the controllers until the context
// ends, or something that can't be repaired fails. It returns when everything
// that it started has ended.
func (c *Controllers) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if _, err := c.crds.AddEventHandler(c.crdHandler()); err != nil {
		return fmt.Errorf("watch CustomResourceDefinitions: %w", err)
	}
	group.Go(func() error {
		c.crds.RunWithContext(ctx)
		return nil
	})
	group.Go(func() error { return c.hub.Run(ctx) })
	group.Go(func() error { return c.engine.Run(ctx) })
	group.Go(func() error {
		// What is known of kinds decides whether objects are gone for good: nothing
		// runs before that is complete.
		if !cache.WaitForCacheSync(ctx.Done(), c.crds.HasSynced) {
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
			c.engine.Start(gvk, definition.New(c.definitionConfig(gvk)))
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
		AllowCRDDeletion: c.options.AllowCRDDeletion, Now: c.options.Now,
	}
}

func (c *Controllers) resolve(_ context.Context, gvk schema.GroupVersionKind) (watch.Resource, error) {
	r, err := c.kinds.Resolve(gvk)
	if cluster.IsUnavailable(err) {
		return watch.Resource{}, &watch.UnavailableError{Reason: watch.WaitingForKind, Message: err.Error()}
	}
	if err != nil {
		return watch.Resource{}, err
	}
	return watch.Resource{GVR: r.GVR, Namespaced: r.Namespaced}, nil
}

// crdHandler passes on what happens to kinds: to what is known of them, to the
// watches, and to the definitions that use or own them.
func (c *Controllers) crdHandler() cache.ResourceEventHandler {
	observe := func(o any, change watch.KindChange) {
		if crd, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok && c.kinds.Observe(crd) {
			c.kindChanged(crd, change)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { observe(o, watch.KindArrived) },
		UpdateFunc: func(_, o any) { observe(o, watch.KindAltered) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			crd, ok := o.(*apiextensionsv1.CustomResourceDefinition)
			if !ok {
				return
			}
			if c.kinds.Forget(crd) {
				c.kindChanged(crd, watch.KindDeleted)
				return
			}
			c.wakeConcerned(crd) // it served nothing, but its name is free now
		},
	}
}

func (c *Controllers) kindChanged(crd *apiextensionsv1.CustomResourceDefinition, change watch.KindChange) {
	c.hub.KindChanged(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}, change)
	c.wakeConcerned(crd)
}

func (c *Controllers) wakeConcerned(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, key := range c.registry.Concerned(crd) {
		c.wake(key)
	}
}

func (c *Controllers) wake(key object.Key) {
	c.engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Normal})
}
