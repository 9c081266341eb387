package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// limitFlags bound each instance.
type limitFlags struct{ plan.Limits }

func (f *limitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Uint64Var(&f.Cost, plan.CostLimit.Flag()[2:], plan.MaxCost, "maximum CEL cost of all expressions in one reconcile of an instance")
	flags.IntVar(&f.Bytes, plan.BytesLimit.Flag()[2:], plan.MaxBytes, "maximum bytes of the results of these expressions")
	flags.IntVar(&f.Objects, plan.ObjectsLimit.Flag()[2:], plan.MaxObjects, "maximum number of objects that an instance consists of")
	flags.IntVar(&f.Depth, plan.DepthLimit.Flag()[2:], plan.MaxDepth, "how deeply instances may be nested in each other")
}

func (f *limitFlags) check() error {
	for limit, value := range map[plan.Limit]int{plan.BytesLimit: f.Bytes, plan.ObjectsLimit: f.Objects, plan.DepthLimit: f.Depth} {
		if value < 1 {
			return &usageError{fmt.Errorf("%s must be at least 1, not %d", limit.Flag(), value)}
		}
	}
	if f.Cost < 1 {
		return &usageError{fmt.Errorf("%s must be at least 1", plan.CostLimit.Flag())}
	}
	return nil
}
