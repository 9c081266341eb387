package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// limitFlags bound each instance, and the watches for instances.
type limitFlags struct {
	plan.Limits
	watches watch.Limits
}

func (f *limitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Uint64Var(&f.Cost, plan.CostLimit.Flag()[2:], plan.MaxCost, "maximum CEL cost of all expressions in one reconcile of an instance")
	flags.IntVar(&f.Bytes, plan.BytesLimit.Flag()[2:], plan.MaxBytes, "maximum bytes of all values that the expressions and templates of an instance give")
	flags.IntVar(&f.Objects, plan.ObjectsLimit.Flag()[2:], plan.MaxObjects, "maximum number of objects that an instance consists of")
	flags.IntVar(&f.Depth, plan.DepthLimit.Flag()[2:], plan.MaxDepth, "how deeply instances may be nested in each other")
	flags.IntVar(&f.watches.PerSubscriber, watch.PerInstanceFlag[2:], watch.MaxPerInstance,
		"maximum number of objects and selections of others that an instance reads")
	flags.IntVar(&f.watches.PerNamespace, watch.PerNamespaceFlag[2:], watch.MaxPerNamespace,
		"maximum number of watches for what the instances of a namespace read of others")
	flags.IntVar(&f.watches.Total, watch.TotalFlag[2:], watch.MaxWatches, "maximum number of such watches in all")
}

func (f *limitFlags) check() error {
	values := map[string]int{
		plan.BytesLimit.Flag(): f.Bytes, plan.ObjectsLimit.Flag(): f.Objects, plan.DepthLimit.Flag(): f.Depth,
		watch.PerInstanceFlag: f.watches.PerSubscriber, watch.PerNamespaceFlag: f.watches.PerNamespace, watch.TotalFlag: f.watches.Total,
	}
	for _, flag := range slices.Sorted(maps.Keys(values)) {
		if values[flag] < 1 {
			return &usageError{fmt.Errorf("%s must be at least 1, not %d", flag, values[flag])}
		}
	}
	if f.Cost < 1 {
		return &usageError{fmt.Errorf("%s must be at least 1, not 0", plan.CostLimit.Flag())}
	}
	return nil
}
