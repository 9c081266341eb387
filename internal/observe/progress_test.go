package observe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// deletingTree returns a tree with the given progress in its status; nil for none yet.
func deletingTree(uid string, d *report.Deletion, children ...observe.Node) observe.Node {
	return observe.Node{UID: types.UID(uid), Exists: true, Instance: true, Deletion: d, Children: children}
}

func part(uid string) observe.Node { return observe.Node{UID: types.UID(uid), Exists: true} }

func deletionStatus(removed, total int64) *report.Deletion {
	return &report.Deletion{Removed: removed, Total: total}
}

func TestProgress(t *testing.T) {
	type progress = observe.Progress
	tests := map[string]struct {
		reason string
		states []observe.Node
		want   []observe.Progress
	}{
		"an object that is gone counts before the status says so": {
			reason: "statuses are not written for each object",
			states: []observe.Node{
				deletingTree("top", nil, part("a"), part("b")),
				deletingTree("top", deletionStatus(0, 2), part("a"), part("b")),
				deletingTree("top", deletionStatus(0, 2), part("a")),
				deletingTree("top", deletionStatus(1, 2), part("a")),
				deletingTree("top", deletionStatus(1, 2)),
			},
			want: []progress{{0, 2, 0}, {0, 2, 0}, {1, 2, 50}, {1, 2, 50}, {2, 2, 100}},
		},
		"objects that were gone before count too": {
			reason: "they are in the status",
			states: []observe.Node{
				deletingTree("top", deletionStatus(3, 5), part("a"), part("b")),
				deletingTree("top", deletionStatus(3, 5), part("a")),
			},
			want: []progress{{3, 5, 60}, {4, 5, 80}},
		},
		"the children of a nested instance count, also when it is gone": {
			reason: "the total includes all objects at the beginning",
			states: []observe.Node{
				deletingTree("top", deletionStatus(0, 1), deletingTree("low", deletionStatus(1, 3), part("a"), part("b"))),
				deletingTree("top", deletionStatus(0, 1), deletingTree("low", deletionStatus(3, 3))),
				deletingTree("top", deletionStatus(1, 1)),
			},
			want: []progress{{1, 4, 25}, {3, 4, 75}, {4, 4, 100}},
		},
		"objects that are found late add to the total, and the percentage stays": {
			reason: "a bar that goes back looks like an error",
			states: []observe.Node{
				deletingTree("top", deletionStatus(1, 2), deletingTree("low", nil)),
				deletingTree("top", deletionStatus(1, 2), deletingTree("low", nil, part("a"), part("b"), part("c"))),
			},
			want: []progress{{1, 2, 50}, {1, 5, 50}},
		},
		"a later object of the same name is another": {
			reason: "it has to be removed as well",
			states: []observe.Node{
				deletingTree("top", nil, part("a")),
				deletingTree("top", nil, part("a again")),
			},
			want: []progress{{0, 1, 0}, {1, 2, 50}},
		},
		"an object that cannot be read does not count as gone": {
			reason: "only the status shows it",
			states: []observe.Node{
				deletingTree("top", deletionStatus(0, 2), part("a"), observe.Node{Exists: true, Unseen: true, Name: "b"}),
				deletingTree("top", deletionStatus(1, 2), observe.Node{Exists: true, Unseen: true, Name: "b"}),
			},
			want: []progress{{0, 2, 0}, {1, 2, 50}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var tracker observe.ProgressTracker
			var got []observe.Progress
			for _, state := range tt.states {
				got = append(got, tracker.Observe(state))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			last := got[len(got)-1]
			if end := tracker.Complete(); end.Removed != last.Total || end.Percent != 100 {
				t.Errorf("the completed progress is %+v", end)
			}
		})
	}
}
