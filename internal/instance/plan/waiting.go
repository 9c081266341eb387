package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
)

// maxWaiting bounds status.waiting.
const maxWaiting = 50

// Waiting lists waits for the status. If there are too many, it lists waits with a limit, whose beginning must survive
// a restart, then one of each node; its last entry says how many more there are.
func Waiting(waits []Wait, now time.Time) []report.Waiting {
	more := len(waits) - maxWaiting
	if more > 0 {
		more++ // the last entry is one of those listed
		waits = mostImportant(waits)[:maxWaiting-1]
	}
	out := make([]report.Waiting, len(waits))
	for i, w := range waits {
		out[i] = report.Waiting{Node: w.Node, Reason: string(w.Reason), On: w.On, Since: report.At(w.Since), Attempts: int64(w.Attempts(now))}
	}
	if more > 0 {
		last := out[len(out)-1]
		last.On = fmt.Sprintf("%d more, of this and other resources", more)
		out = append(out, last)
	}
	return out
}

func mostImportant(waits []Wait) []Wait {
	rank, seen := map[WaitKey]int{}, map[string]bool{}
	for _, w := range waits {
		switch {
		case w.Timeout > 0 || w.Retries > 0:
			rank[w.Key()] = 0
		case !seen[w.Node]:
			rank[w.Key()] = 1
		default:
			rank[w.Key()] = 2
		}
		seen[w.Node] = true
	}
	return slices.SortedStableFunc(slices.Values(waits), func(a, b Wait) int { return cmp.Compare(rank[a.Key()], rank[b.Key()]) })
}
