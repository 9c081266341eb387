package shard_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/shard"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// serverRange is the slot of a namespace if slots were equal ranges of the hash by which the API server shards lists and
// watches (KEP-5866).
func serverRange(namespace string) shard.Slot {
	h := fnv.New64a()
	_, _ = h.Write([]byte(namespace)) // never fails
	return shard.Slot(h.Sum64() / (1 << 55))
}

// TestRangesOfTheAPIServer records how namespaces with usual names would be spread over slots that are ranges of the API
// server's hash, besides our slots: why a replica doesn't ask for its part by such ranges.
func TestRangesOfTheAPIServer(t *testing.T) {
	const views = 20 // whose busiest replicas are averaged
	var out strings.Builder
	fmt.Fprintf(&out, "%-22s %10s  %10s  %21s  %21s\n", "", "", "", "ranges of the server", "our slots")
	fmt.Fprintf(&out, "%-22s %10s  %10s  %10s %10s  %10s %10s\n", "names", "namespaces", "replicas", "slots used", "most/mean", "slots used", "most/mean")
	for _, name := range []struct {
		format string
		step   int
	}{{"tenant-%d", 1}, {"team-%03d-prod", 1}, {"%08x-app", 0x9e37_79b1}} {
		for _, namespaces := range []int{30, 100, 1000} {
			for _, replicas := range []int{2, 3, 10} {
				fmt.Fprintf(&out, "%-22s %10d  %10d", name.format, namespaces, replicas)
				for _, slotOf := range []func(string) shard.Slot{serverRange, func(ns string) shard.Slot { return shard.SlotOf(ns, "") }} {
					in := map[shard.Slot]int{}
					for i := range namespaces {
						in[slotOf(fmt.Sprintf(name.format, i*name.step))]++
					}
					sum := 0
					for v := range views {
						sum += busiest(shard.NewView(idsOf(v, replicas)...), in)
					}
					fmt.Fprintf(&out, "  %10d %10.2f", len(in), float64(sum*replicas)/float64(namespaces*views))
				}
				fmt.Fprintln(&out)
			}
		}
	}
	golden.Compare(t, "testdata/ranges.txt", out.String())
}

func idsOf(view, replicas int) (out []string) {
	for i := range replicas {
		out = append(out, fmt.Sprintf("espalier-%d-%d", view, i))
	}
	return out
}

// busiest is how many namespaces the replica has that has most.
func busiest(v shard.View, namespaces map[shard.Slot]int) (most int) {
	a := v.Assign()
	of := map[string]int{}
	for slot, n := range namespaces {
		id := a.Owner(slot)
		of[id] += n
		most = max(most, of[id])
	}
	return most
}
