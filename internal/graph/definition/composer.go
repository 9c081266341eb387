package definition

import (
	"context"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// composerOf makes a Composer of a graph.
func composerOf(g *graph.Graph) instance.Composer { return graphComposer{g} }

type graphComposer struct{ *graph.Graph }

// Compose evaluates the graph; it is pure and can't fail.
func (c graphComposer) Compose(_ context.Context, facts plan.Facts, _ instance.ClusterState) (plan.Desired, error) {
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
