package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func inMilliseconds(all []time.Duration) []float64 {
	out := make([]float64, len(all))
	for i, d := range all {
		out[i] = milliseconds(d)
	}
	return out
}

func median[T cmp.Ordered](of []T) T { return quantile(of, 0.5) }

func minimum[T cmp.Ordered](of []T) T { return quantile(of, 0) }

func most[T cmp.Ordered](of []T) T { return quantile(of, 1) }

// quantile returns the smallest value that the given share of the values does not exceed; zero if
// there are none.
func quantile[T cmp.Ordered](of []T, share float64) T {
	if len(of) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(of))
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[max(0, i)]
}
