package observe_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

func TestChanges(t *testing.T) {
	start := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	top := func(children ...observe.Node) observe.Node {
		return observe.Node{Exists: true, Kind: "Top", Name: "demo", Ready: observe.False, Reason: "NotReady", Created: &start, Children: children}
	}
	waiting := observe.Node{Node: "vpc", Ready: observe.NotReported, Reason: "WaitingForField", Waits: []observe.Wait{{On: "net.status.id", Since: start, Attempts: 1}}}
	created := observe.Node{Node: "vpc", Exists: true, Kind: "Vpc", Name: "main", Ready: observe.False, Reason: "Creating", Message: "soon"}
	held := created
	held.Reason, held.Removal = "Finalizer", &report.Blocker{BlockedObject: report.BlockedObject{Reason: report.HeldByFinalizer, Message: "held by finalizer x", Since: report.At(start)}}
	unseen := observe.Node{Node: "logs", Exists: true, Unseen: true, Kind: "Bucket", Removal: &report.Blocker{}}
	deleting := func(removed int64) observe.Node {
		return observe.Node{Exists: true, Kind: "Top", Name: "demo", Reason: "Deleting", Deleted: &start, Deletion: &report.Deletion{Removed: removed, Total: 2}}
	}
	inProgress := deleting(0)
	inProgress.Deletion = &report.Deletion{Total: 14, Blocked: 12, Blockers: []report.Blocker{
		{BlockedObject: report.BlockedObject{Reason: report.HeldByFinalizer}}, {BlockedObject: report.BlockedObject{Reason: report.ExternalDeletion, InProgress: true}},
	}}
	value := observe.Node{Node: "name", Variable: true, Reason: "Variable"}
	leftOut := observe.Node{Node: "extra", Skipped: true, Reason: "Skipped"}
	tests := map[string]struct {
		before, after observe.Node
		want          []string
	}{
		"only time passes": {
			before: top(waiting), after: top(waiting), want: nil,
		},
		"a node that waited is created": {
			before: top(waiting), after: top(created),
			want: []string{"Vpc                main             False   Creating: soon"},
		},
		"a node waits": {
			before: top(), after: top(waiting),
			want: []string{"(vpc)              of Top demo      -       WaitingForField: net.status.id"},
		},
		"an object is gone": {
			before: top(created), after: top(), want: []string{"Vpc                main             gone"},
		},
		"a node no longer waits": {
			before: top(created, waiting), after: top(created),
			want: []string{"(vpc)              of Top demo      no longer waited for"},
		},
		"a removal is blocked": {
			before: top(created), after: top(held),
			want: []string{"Vpc                main             False   Finalizer: held by finalizer x"},
		},
		"a deletion makes progress": {
			before: deleting(0), after: deleting(1),
			want: []string{"Top                demo                     Deleting: 1 of 2 removed"},
		},
		"what is in progress does not count as blocked": {
			before: deleting(0), after: inProgress,
			want: []string{"Top                demo                     Deleting: 0 of 14 removed, 1 blocked, 11 in progress"},
		},
		"a value and a node that is left out are no news of a deletion": {
			before: top(value, leftOut, created), after: deleting(1),
			want: []string{"Vpc                main             gone", "Top                demo                     Deleting: 1 of 2 removed"},
		},
		"a value is no longer in the definition": {
			before: top(value), after: top(), want: []string{"(name)             of Top demo      no longer in the definition"},
		},
		"a blocker that was only reported is not shown as gone": {
			before: top(unseen), after: top(),
			want: []string{"Bucket                              no longer a blocker"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			var log observe.ChangeLog
			for _, c := range observe.Changes(observe.Rows(tt.before, start), observe.Rows(tt.after, start.Add(time.Hour))) {
				got = append(got, log.Line(c))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestLinesAreAligned has rows with long names.
func TestLinesAreAligned(t *testing.T) {
	start := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	tree := func(ready observe.Ready) []observe.Row {
		children := []observe.Node{
			{Node: "a", Exists: true, Kind: "HorizontalPodAutoscaler", Name: "a", Ready: ready},
			{Node: "b", Exists: true, Kind: "Pod", Namespace: "elsewhere", Name: "a-name-of-more-than-sixteen-characters", Ready: ready},
			{Node: "c", Exists: true, Kind: "Pöd", Name: "c", Ready: ready},
		}
		return observe.Rows(observe.Node{Exists: true, Kind: "Top", Namespace: "default", Name: "demo", Ready: ready, Children: children}, start)
	}
	var log observe.ChangeLog
	log.FitColumns(tree(observe.False))
	columns := map[int]bool{}
	for _, c := range append(observe.Changes(tree(observe.False), tree(observe.True)), observe.Changes(tree(observe.True), nil)...) {
		line := log.Line(c)
		for _, word := range []string{"True", "gone"} {
			if before, _, found := strings.Cut(line, word); found {
				columns[utf8.RuneCountInString(before)] = true
			}
		}
	}
	if len(columns) != 1 {
		t.Errorf("the column READY begins at %v", columns)
	}
}

func TestAge(t *testing.T) {
	tests := map[string]struct {
		d    time.Duration
		want string
	}{
		"a negative age is zero":                {-time.Second, "0s"},
		"seconds up to two minutes":             {119 * time.Second, "119s"},
		"minutes and seconds up to ten minutes": {3*time.Minute + 5*time.Second, "3m5s"},
		"whole minutes without seconds":         {5 * time.Minute, "5m"},
		"minutes up to two hours":               {119 * time.Minute, "119m"},
		"hours and minutes up to eight hours":   {2*time.Hour + 5*time.Minute, "2h5m"},
		"hours up to two days":                  {47 * time.Hour, "47h"},
		"days":                                  {72 * time.Hour, "3d"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := observe.Age(tt.d); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
