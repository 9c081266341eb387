package instance

import (
	"context"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
)

// FromGraph makes a Composer of a graph.
func FromGraph(g *graph.Graph) Composer { return graphComposer{g} }

type graphComposer struct{ *graph.Graph }

// Compose evaluates the graph; it is pure and can't fail.
func (c graphComposer) Compose(_ context.Context, facts plan.Facts, _ World) (plan.Desired, error) {
	return c.Graph.Compose(facts), nil
}

func (c graphComposer) Depth() int {
	depth := 0
	for _, n := range c.Nodes {
		depth = max(depth, n.Layer+1)
	}
	return depth
}

func (c graphComposer) Room() report.Room { return report.RoomIn(c.Status) }

func (c graphComposer) Defaults() inventory.Defaults { return c.Graph.Defaults }
