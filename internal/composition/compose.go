// Package composition starts what serves the composition dialect on a cluster.
package composition

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/definition"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/revision"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/manager/cluster"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Options say how the dialect is served.
type Options struct {
	// Kinds makes what serves composites and claims; the instance engine by default, with
	// this Runner of functions.
	Kinds  definition.Kinds
	Runner pipeline.Runner
	// Changed tells of functions that answer otherwise from now on.
	Changed func(tell func(name string)) (stop func())
	// Usages tells which objects are in use.
	Usages instance.Usages
	// Layers measures how long values take upwards.
	Layers *telemetry.Layers
	// Version is this program's version.
	Version string
	// MoreColumns has kubectl get show more of the kinds than the dialect's columns.
	MoreColumns bool
	// Registry is of the dialect's definitions; the cluster asks it whom a change of a kind
	// concerns.
	Registry *definition.Registry
	// Functions are the names of those functions that need no Function object.
	Functions []string
	Events    telemetry.Recorder
	// Now tells the time.
	Now func() time.Time
}

// Annotated are kinds all of whose annotations count: a composition's are part of what its
// revisions are told apart by.
var Annotated = []schema.GroupVersionKind{revision.CompositionKind}

// Start starts the controllers of definitions, of compositions and of their revisions. The
// kinds of the dialect, and those of functions, have to be installed; functions are
// watched by others.
func Start(ctx context.Context, k *cluster.Cluster, o Options) {
	if o.Kinds == nil {
		made := &kinds{cluster: k, Options: o}
		o.Kinds = made
		context.AfterFunc(ctx, o.Changed(made.functionChanged))
	}
	revising := revision.Config{Cluster: k.Client, Hub: k.Hub, Events: o.Events, Now: o.Now, Functions: o.Functions}
	k.Serve(revision.RevisionKind, &revision.Revisions{Config: revising})
	k.Serve(revision.CompositionKind, &revision.Compositions{Config: revising})

	library := definition.NewCompositionCache(k.Hub, func(gk schema.GroupKind) {
		for _, key := range o.Registry.Defining(gk) {
			k.Wake(key)
		}
	})
	k.Engine.Start(definition.Kind, definition.New(definition.Config{
		Config: serving.Config{
			Cluster: k.Client, Kinds: k.Kinds, Hub: k.Hub, Engine: k.Engine, Events: o.Events, Now: o.Now,
			Published: k.Published, Held: k.Gate.Wrap, MoreColumns: o.MoreColumns,
		},
		Registry: o.Registry, Compositions: library, Runners: o.Kinds,
	}), nil)
}
