package diag

import (
	"slices"
	"strings"
)

// maxNearest bounds the names that are compared, in bytes: a comparison takes as much time as the product of their lengths.
const maxNearest = 512

// Nearest returns the known name that is most similar to the given one, or "" if none is
// similar enough. Of equally similar names it returns the first in order.
func Nearest(name string, known []string) string {
	if len(name) > maxNearest {
		return ""
	}
	best, bestDistance := "", max(1, len(name)/3)+1
	sorted := slices.Sorted(slices.Values(known))
	for _, candidate := range sorted {
		if candidate == name || len(candidate) > maxNearest {
			continue
		}
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the optimal string alignment distance: insertions, deletions,
// substitutions and swaps of neighbours each cost one.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before []int
	previous := make([]int, len(y)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(x); i++ {
		current := make([]int, len(y)+1)
		current[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous = previous, current
	}
	return previous[len(y)]
}
