package cloudcontrol

import (
	"context"
	"fmt"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// The next update becomes the part that AWS accepts now, as the hook of the type says. Then the resource still differs,
// so the next part is an update of its own.
func (c *client) takeStep(ctx context.Context, o *external.Observation) {
	seen, wanted := c.last, c.normalized(c.wanted)
	seen.step = c.hooks.Step(ctx, c.readOther, seen.properties, wanted)
	if seen.step.Wanted == nil {
		return
	}
	next := model.Compare(c.Type, seen.step.Wanted, seen.properties)
	seen.patch = model.Patch(c.Type, next, seen.step.Wanted, seen.properties)
	if seen.step.Progress != "" {
		o.Diff += " (" + seen.step.Progress + ")"
	}
}

func (c *client) readOther(ctx context.Context, typeName, identifier string) (map[string]any, error) {
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return nil, err
	}
	properties, found, err := c.get(ctx, typeName, identifier)
	switch {
	case err != nil:
		return nil, c.readError("read", err)
	case !found:
		return nil, fmt.Errorf("%s %s does not exist", typeName, identifier)
	}
	return properties, nil
}
