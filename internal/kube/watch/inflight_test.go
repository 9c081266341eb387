package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/object"
)

// TestEventsDuringAWrite delivers events of an object to its writer while the write is in flight and
// after it.
func TestEventsDuringAWrite(t *testing.T) {
	const withheld, routed = true, false
	name := objectName{"prod", "web"}
	writer, other := Subscriber{object.Key{Name: "writer"}}, Subscriber{object.Key{Name: "other"}}
	state := func(revision uint64) objectVersion { return objectVersion{"u", revision} }
	type arrival struct {
		to   Subscriber
		is   objectVersion
		want bool
	}
	cases := map[string]struct {
		reason  string
		during  []arrival // before the answer, which is of revision 5
		resumed []uint64  // the revision that wakes the writer when the write ends
		later   time.Duration
		after   []arrival
	}{
		"The echo comes before the answer": {
			reason: "the answer may show that it is the echo", during: []arrival{{writer, state(5), withheld}},
		},
		"Events of other writes come before the answer": {
			reason: "one wake-up suffices for all", during: []arrival{{writer, state(4), withheld}, {writer, state(6), withheld}, {writer, state(5), withheld}},
			resumed: []uint64{6},
		},
		"Another subscriber": {
			reason: "only the writer knows the answer", during: []arrival{{other, state(5), routed}}, after: []arrival{{other, state(5), routed}},
		},
		"The echo is routed after the write has ended": {
			reason: "the store has the revision already", later: echoWindow / 2, after: []arrival{{writer, state(5), withheld}},
		},
		"Another incarnation has the revision": {
			reason: "it is another object", after: []arrival{{writer, objectVersion{"v", 5}, routed}},
		},
		"A later change of another client": {
			reason: "the answer does not have it", after: []arrival{{writer, state(6), routed}},
		},
		"The echo is late": {
			reason: "answers are kept for a limited time", later: echoWindow, after: []arrival{{writer, state(5), routed}},
		},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var writes inFlightWrites
				arrive := func(all []arrival) {
					t.Helper()
					for _, a := range all {
						if got := writes.withhold(name, a.to, pendingEvent{objectVersion: a.is}); got != a.want {
							t.Errorf("%s: revision %d for %s is withheld: %t", tc.reason, a.is.revision, a.to.Name, got)
						}
					}
				}
				w := &write{name: name, writer: writer}
				writes.begin(w, time.Now())
				arrive(tc.during)
				writes.addAnswer(name, writer, state(5))
				var resumed []uint64
				for _, e := range writes.finish(w, time.Now()) {
					resumed = append(resumed, e.revision)
				}
				if diff := cmp.Diff(tc.resumed, resumed); diff != "" {
					t.Errorf("%s: when the write ends: -want +got:\n%s", tc.reason, diff)
				}
				<-time.After(tc.later)
				writes.begin(&write{name: objectName{"prod", "db"}, writer: writer}, time.Now()) // removes old writes
				arrive(tc.after)
				<-time.After(3 * echoWindow)
				synctest.Wait()
				if n := len(writes.ended); n != 0 {
					t.Errorf("%d writes are kept, though their echo window is over", n)
				}
			})
		})
	}
}
