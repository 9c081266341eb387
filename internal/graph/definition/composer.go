package definition

import (
	"context"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// ComposerOf returns the Composer of a graph. The overrides belong to the definition, whatever the revision of the
// graph.
func ComposerOf(g *graph.Graph, overrides inventory.Overrides) instance.Composer {
	return graphComposer{g, overrides}
}

type graphComposer struct {
	*graph.Graph
	overrides inventory.Overrides
}

// Compose evaluates the graph. It fails only when the context ends.
func (c graphComposer) Compose(ctx context.Context, facts plan.Facts) (plan.Desired, error) {
	return c.ComposeWithin(ctx.Err, facts)
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
