package profile

import (
	"math"
	"slices"
	"time"
)

// Histogram counts durations. Its zero value is empty. Quantiles are exact to a quarter of their value.
type Histogram struct {
	// Sum is all durations together.
	Sum time.Duration `json:"nanoseconds"`
	// Buckets count the durations up to the bound of their index, and above that of the index before. Empty ones at the end
	// are left out.
	Buckets []uint64 `json:"buckets"`
}

// The bounds of the buckets: five microseconds, and a quarter more for each further one, up to more than a reconcile
// may take. The last bucket has no bound.
const (
	firstBound = 5 * time.Microsecond
	growthRate = 1.25
	buckets    = 76
)

var bounds = func() (all [buckets - 1]time.Duration) {
	for i := range all {
		all[i] = time.Duration(float64(firstBound) * math.Pow(growthRate, float64(i)))
	}
	return all
}()

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	bucket, _ := slices.BinarySearch(bounds[:], d)
	for len(h.Buckets) <= bucket {
		h.Buckets = append(h.Buckets, 0)
	}
	h.Buckets[bucket]++
	h.Sum += max(d, 0)
}

// Count is how many durations were counted.
func (h Histogram) Count() (count uint64) {
	for _, n := range h.Buckets {
		count += n
	}
	return count
}

// Quantile estimates the duration that a share of the durations does not exceed: 0.5 is the median. It is 0 for an empty
// Histogram.
func (h Histogram) Quantile(share float64) time.Duration {
	rank := share * float64(h.Count())
	below := 0.0
	for i, n := range h.Buckets {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		lower := time.Duration(0)
		if i > 0 {
			lower = bounds[i-1]
		}
		if i >= len(bounds) {
			return lower
		}
		return lower + time.Duration(float64(bounds[i]-lower)*(rank-below)/float64(n))
	}
	return 0
}

// Clone returns a copy that shares nothing.
func (h Histogram) Clone() Histogram {
	h.Buckets = slices.Clone(h.Buckets)
	return h
}

// since returns what was counted after an earlier state.
func (h Histogram) since(earlier Histogram) Histogram {
	if h.Count() < earlier.Count() || h.Sum < earlier.Sum {
		return h
	}
	out := Histogram{Sum: h.Sum - earlier.Sum, Buckets: slices.Clone(h.Buckets)}
	for i, n := range earlier.Buckets {
		if i < len(out.Buckets) {
			out.Buckets[i] = growth(out.Buckets[i], n)
		}
	}
	return out
}
