package observe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// going returns a tree with the given progress in its status; with nil there is none yet.
func going(uid string, d *report.Deletion, children ...observe.Node) observe.Node {
	return observe.Node{UID: types.UID(uid), Exists: true, Instance: true, Deletion: d, Children: children}
}

func part(uid string) observe.Node { return observe.Node{UID: types.UID(uid), Exists: true} }

func deletionStatus(removed, total int64) *report.Deletion {
	return &report.Deletion{Removed: removed, Total: total}
}

func TestProgress(t *testing.T) {
	type said = observe.Progress
	tests := map[string]struct {
		reason string
		looks  []observe.Node
		want   []observe.Progress
	}{
		"what is seen to go counts at once": {
			reason: "statuses are written when there is something to tell, not at each object",
			looks: []observe.Node{
				going("top", nil, part("a"), part("b")),
				going("top", deletionStatus(0, 2), part("a"), part("b")),
				going("top", deletionStatus(0, 2), part("a")),
				going("top", deletionStatus(1, 2), part("a")),
				going("top", deletionStatus(1, 2)),
			},
			want: []said{{0, 2, 0}, {0, 2, 0}, {1, 2, 50}, {1, 2, 50}, {2, 2, 100}},
		},
		"what had gone before anybody looked counts too": {
			reason: "the status tells of it",
			looks: []observe.Node{
				going("top", deletionStatus(3, 5), part("a"), part("b")),
				going("top", deletionStatus(3, 5), part("a")),
			},
			want: []said{{3, 5, 60}, {4, 5, 80}},
		},
		"an instance counts with all that is below it, even when it is gone": {
			reason: "the total is what the deletion began with",
			looks: []observe.Node{
				going("top", deletionStatus(0, 1), going("low", deletionStatus(1, 3), part("a"), part("b"))),
				going("top", deletionStatus(0, 1), going("low", deletionStatus(3, 3))),
				going("top", deletionStatus(1, 1)),
			},
			want: []said{{1, 4, 25}, {3, 4, 75}, {4, 4, 100}},
		},
		"what is found late adds to the total, and the bar stays": {
			reason: "a bar that goes back is taken for a mistake",
			looks: []observe.Node{
				going("top", deletionStatus(1, 2), going("low", nil)),
				going("top", deletionStatus(1, 2), going("low", nil, part("a"), part("b"), part("c"))),
			},
			want: []said{{1, 2, 50}, {1, 5, 50}},
		},
		"an object of the same name that comes is another": {
			reason: "it has to be removed as well",
			looks: []observe.Node{
				going("top", nil, part("a")),
				going("top", nil, part("a again")),
			},
			want: []said{{0, 1, 0}, {1, 2, 50}},
		},
		"what can't be seen doesn't count as gone": {
			reason: "only the status can tell",
			looks: []observe.Node{
				going("top", deletionStatus(0, 2), part("a"), observe.Node{Exists: true, Unseen: true, Name: "b"}),
				going("top", deletionStatus(1, 2), observe.Node{Exists: true, Unseen: true, Name: "b"}),
			},
			want: []said{{0, 2, 0}, {1, 2, 50}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var tracker observe.ProgressTracker
			var got []observe.Progress
			for _, state := range tt.looks {
				got = append(got, tracker.Observe(state))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			last := got[len(got)-1]
			if end := tracker.Complete(); end.Removed != last.Total || end.Percent != 100 {
				t.Errorf("in the end it is %+v", end)
			}
		})
	}
}
