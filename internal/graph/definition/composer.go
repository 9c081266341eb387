package definition

import (
	"context"
	"time"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/profile"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// composerOf returns the Composer of a graph. The overrides are those of the definition, whatever
// revision the graph is of.
func composerOf(g *graph.Graph, overrides inventory.Overrides) instance.Composer {
	return graphComposer{g, overrides}
}

type graphComposer struct {
	*graph.Graph
	overrides inventory.Overrides
}

// Compose evaluates the graph. It fails only when the context ends. Some compositions are measured, for the profile of the
// kind that is reconciled.
func (c graphComposer) Compose(ctx context.Context, facts plan.Facts, _ instance.ClusterState) (plan.Desired, error) {
	kind := telemetry.ProfileOf(ctx)
	if !kind.MeasuresNext() {
		return c.ComposeWithin(ctx.Err, nil, facts)
	}
	meter := expr.NewMeter(clock)
	desired, err := c.ComposeWithin(ctx.Err, meter, facts)
	addMeasured(kind, meter)
	if evaluate := desired.AuthorConditions; evaluate != nil {
		desired.AuthorConditions = func(own condition.Set) plan.AuthorConditions { // once the nodes are applied
			defer addMeasured(kind, meter)
			return evaluate(own)
		}
	}
	return desired, err
}

var started = time.Now()

// clock is a monotonic clock.
func clock() time.Duration { return time.Since(started) }

// addMeasured adds what a meter has measured to a profile.
func addMeasured(kind *telemetry.KindProfile, meter *expr.Meter) {
	for p, spent := range meter.Take() {
		kind.AddExpression(profile.Expression{
			Field: p.At().String(), Text: p.Source(), Evaluations: spent.Evaluations, Time: spent.Time, Cost: spent.Cost,
		})
	}
}

func (c graphComposer) Depth() int {
	depth := 0
	for _, n := range c.Nodes {
		depth = max(depth, n.Layer+1)
	}
	return depth
}

func (c graphComposer) StatusFields() report.FieldSet { return c.Graph.StatusFields }

func (c graphComposer) Defaults() inventory.Defaults {
	out := c.Graph.DeletionDefaults
	out.Overrides = c.overrides
	return out
}
