package shard_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/shard"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("espalier-%03d", i)
	}
	return out
}

// TestSpread records how evenly a million instances are spread, and how many of them move when one replica
// joins or leaves: their namespaces have from 1 to 4,000 instances.
func TestSpread(t *testing.T) {
	var instances [shard.Slots]int
	total, namespaces := 0, 0
	for ; total < 1_000_000; namespaces++ {
		n := max(1, int(4000/math.Sqrt(float64(namespaces+1)))) // a few are large
		instances[shard.SlotOf(fmt.Sprintf("tenant-%d", namespaces), "")] += n
		total += n
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d instances in %d namespaces, %d slots\n\n", total, namespaces, shard.Slots)
	fmt.Fprintf(&out, "%8s  %21s  %25s  %19s\n", "", "slots of one replica", "instances of one replica", "instances that move")
	fmt.Fprintf(&out, "%8s  %6s %6s %7s  %8s %8s %7s  %9s %9s\n", "replicas", "least", "most", "most/mean", "least", "most", "most/mean", "one joins", "one leaves")
	moved := func(before, after *shard.Assignment) (n int) {
		for slot := range shard.Slot(shard.Slots) {
			if before.Owner(slot) != after.Owner(slot) {
				n += instances[slot]
			}
		}
		return n
	}
	for _, n := range []int{1, 2, 3, 5, 10, 20, 50, 100} {
		a := shard.NewView(ids(n)...).Assign()
		var slots, loads []int
		for _, id := range ids(n) {
			load := 0
			for slot := range a.Of(id).All() {
				load += instances[slot]
			}
			slots, loads = append(slots, a.Of(id).Len()), append(loads, load)
		}
		joins, leaves := moved(a, shard.NewView(ids(n+1)...).Assign()), moved(a, shard.NewView(ids(n)[1:]...).Assign())
		fmt.Fprintf(&out, "%8d  %6d %6d %9.2f  %8d %8d %9.2f  %8.1f%% %9.1f%%\n", n, slices.Min(slots), slices.Max(slots), float64(slices.Max(slots)*n)/shard.Slots,
			slices.Min(loads), slices.Max(loads), float64(slices.Max(loads)*n)/float64(total), 100*float64(joins)/float64(total), 100*float64(leaves)/float64(total))
		if slices.Min(slots) == 0 || float64(slices.Max(slots)*n) > 1.2*shard.Slots {
			t.Errorf("%d replicas have from %d to %d slots", n, slices.Min(slots), slices.Max(slots))
		}
	}
	golden.Compare(t, "testdata/spread.txt", out.String())
}
