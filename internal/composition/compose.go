// Package composition starts the controllers of the composition dialect.
// See docs/design/0013-composites-and-functions.md.
package composition

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/definition"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/revision"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Options configure the controllers of the dialect.
type Options struct {
	// Reconcilers makes the reconcilers of composites and claims. The default is the instance
	// engine, with Runner.
	Reconcilers definition.Reconcilers
	// Runner runs the functions of pipelines.
	Runner pipeline.Runner
	// SubscribeToFunctions calls a callback for each function with responses that may have changed.
	SubscribeToFunctions func(notify func(name string)) (stop func())
	// Usages knows which objects other objects use.
	Usages instance.Usages
	// Limits bound each composite and claim.
	Limits instance.Limits
	// Layers measures how long status values take to reach the composite.
	Layers *telemetry.StatusPropagation
	// Decided receives what is decided for composites and claims; optional.
	Decided instance.Decided
	// Version is this program's version.
	Version string
	// AdditionalPrinterColumns adds printer columns to the kinds, besides those of Crossplane.
	AdditionalPrinterColumns bool
	// Registry holds the dialect's definitions; the cluster uses it to find the definitions that a change of a kind
	// affects.
	Registry *definition.Registry
	// Functions are the names of the functions that need no Function object.
	Functions []string
	// CheckInput checks the inputs of functions; see revision.CheckInput.
	CheckInput revision.CheckInput
	// Rollouts counts the outcomes of rollouts.
	Rollouts *telemetry.Rollouts
	Events   telemetry.Recorder
	// Now is the clock.
	Now func() time.Time
}

// Annotated are the kinds with annotations that are all part of the desired state: the hash
// of a composition's revision includes the composition's annotations.
var Annotated = []schema.GroupVersionKind{revision.CompositionKind}

// Start starts the controllers of definitions, of compositions and of their revisions. The
// CRDs of the dialect and of functions must be installed. The caller starts the watches of
// functions.
func Start(ctx context.Context, k *cluster.Cluster, o Options) {
	if o.Reconcilers == nil {
		own := &reconcilers{cluster: k, Options: o}
		o.Reconcilers = own
		context.AfterFunc(ctx, o.SubscribeToFunctions(own.functionChanged))
	}
	context.AfterFunc(ctx, o.SubscribeToFunctions(func(string) { enqueueAll(k, revision.RevisionKind) })) // another backend may accept other inputs
	revising := revision.Config{Cluster: k.Client, Hub: k.Hub, Events: o.Events, Rollouts: o.Rollouts, Now: o.Now, Functions: o.Functions, CheckInput: o.CheckInput}
	k.Serve(revision.RevisionKind, &revision.Revisions{Config: revising})
	k.Serve(revision.CompositionKind, &revision.Compositions{Config: revising})

	library := definition.NewCompositionCache(k.Hub, func(gk schema.GroupKind) {
		for _, key := range o.Registry.Defining(gk) {
			k.Enqueue(key)
		}
	})
	k.Start(definition.Kind, definition.New(definition.Config{
		Config: serving.Config{
			Cluster: k.Client, Kinds: k.Kinds, Hub: k.Hub, Engine: k.Engine, Events: o.Events, Now: o.Now,
			Published: k.RecordCRD, Held: k.Instances, AdditionalPrinterColumns: o.AdditionalPrinterColumns,
		},
		Registry: o.Registry, Compositions: library, Reconcilers: o.Reconcilers,
	}))
}
