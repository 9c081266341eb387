// Package server wires the program together; nothing else does.
package server

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/compose"
	"github.com/espalier-dev/espalier/internal/controller/definition"
	"github.com/espalier-dev/espalier/internal/controller/establish"
	"github.com/espalier-dev/espalier/internal/function"
	"github.com/espalier-dev/espalier/internal/kernel"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/pipeline"
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
	// Providers serve managed resources.
	Providers []managed.Provider
	// Composites makes what serves composites and claims of the composition dialect; the
	// instance engine by default.
	Composites establish.Kinds
	// Functions are the names of those functions that are part of this program.
	Functions []string
	// Around is put around what runs functions; optional.
	Around func(pipeline.Runner) pipeline.Runner
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
	// composites is what is known of the composition dialect's definitions.
	composites *establish.Registry
}

// NewControllers prepares the controllers; Run runs them.
func NewControllers(o Options) (*Controllers, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Controllers{options: o, registry: definition.NewRegistry(), composites: establish.NewRegistry()}
	var err error
	c.Kernel, err = kernel.New(kernel.Options{
		Config: o.Config, Workers: o.Workers, Log: o.Log, Observe: o.Observe,
		Concerned: c.concerned, Using: c.registry.Using,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// concerned lists the definitions, of both dialects, that a change of a kind concerns.
func (c *Controllers) concerned(crd *apiextensionsv1.CustomResourceDefinition) []object.Key {
	return slices.Concat(c.registry.Concerned(crd), c.composites.Concerned(crd))
}

// Run installs the dialects' kinds and runs the controllers until the context
// ends, or something that can't be repaired fails. It returns when everything
// that it started has ended.
func (c *Controllers) Run(ctx context.Context) error {
	return c.Kernel.Run(ctx, func(ctx context.Context) error {
		if err := c.Install(ctx, v1alpha1.CRDs); err != nil {
			return err
		}
		if err := provide.Start(ctx, c.Kernel, provide.Options{Providers: c.options.Providers, Events: c.options.Events, Poll: c.options.Poll, Now: c.options.Now, Until: c.options.Until}); err != nil {
			return err
		}
		if err := compose.Start(ctx, c.Kernel, compose.Options{
			Kinds: c.options.Composites, Runner: c.around(c.functions()), Version: c.options.Version,
			Registry: c.composites, Functions: c.options.Functions, Events: c.options.Events, Now: c.options.Now,
		}); err != nil {
			return err
		}
		for _, kind := range []string{v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind} {
			gvk := v1alpha1.GroupVersion.WithKind(kind)
			c.Engine.Start(gvk, definition.New(c.definitionConfig(gvk)), nil)
		}
		return nil
	})
}

// functions runs the functions of pipelines.
func (c *Controllers) functions() pipeline.Runner {
	var known pipeline.Functions
	function.Register(&known)
	once := func(string) string { return "" } // of this program there is one revision
	return pipeline.NewCache(pipeline.Guard(&known, pipeline.Limits{}), once, answers, c.options.Now)
}

func (c *Controllers) around(r pipeline.Runner) pipeline.Runner {
	if c.options.Around == nil {
		return r
	}
	return c.options.Around(r)
}

// answers is how many bytes of functions' answers are kept.
const answers = 64 << 20

func (c *Controllers) definitionConfig(kind schema.GroupVersionKind) definition.Config {
	return definition.Config{
		Kind: kind, Cluster: c.Client, Kinds: c.Kinds, Hub: c.Hub, Engine: c.Engine,
		Events: c.options.Events, Registry: c.registry, Version: c.options.Version,
		AllowCRDDeletion: c.options.AllowCRDDeletion, Now: c.options.Now, Published: c.Published, Held: c.Gate.Keep,
	}
}
