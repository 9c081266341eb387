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
		// received says that a store had it while the write was in flight.
		received bool
	}
	cases := map[string]struct {
		reason  string
		during  []arrival // before the answer, which is of revision 5
		resumed []uint64  // the revision that wakes the writer when the write ends
		later   time.Duration
		after   []arrival
	}{
		"The echo comes before the answer": {
			reason: "the answer may show that it is the echo", during: []arrival{{to: writer, is: state(5), want: withheld}},
		},
		"Events of other writes come before the answer": {
			reason: "one wake-up suffices for all", during: []arrival{{to: writer, is: state(4), want: withheld}, {to: writer, is: state(6), want: withheld}, {to: writer, is: state(5), want: withheld}},
			resumed: []uint64{6},
		},
		"Another subscriber": {
			reason: "only the writer knows the answer", during: []arrival{{to: other, is: state(5), want: routed}}, after: []arrival{{to: other, is: state(5), want: routed, received: true}},
		},
		"The echo is routed after the write has ended": {
			reason: "the store had it when the writer read last", later: echoWindow / 2, after: []arrival{{to: writer, is: state(5), want: withheld, received: true}},
		},
		"The echo is new to a store after the write has ended": {
			reason: "the writer may have read an older state", after: []arrival{{to: writer, is: state(5), want: routed}},
		},
		"Another incarnation has the revision": {
			reason: "it is another object", after: []arrival{{to: writer, is: objectVersion{"v", 5}, want: routed, received: true}},
		},
		"A later change of another client": {
			reason: "the answer does not have it", after: []arrival{{to: writer, is: state(6), want: routed, received: true}},
		},
		"The echo is late": {
			reason: "answers are kept for a limited time", later: echoWindow, after: []arrival{{to: writer, is: state(5), want: routed, received: true}},
		},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var writes inFlightWrites
				arrive := func(all []arrival) {
					t.Helper()
					for _, a := range all {
						event := pendingEvent{objectVersion: a.is, after: writes.endings.Load()}
						if a.received {
							event.after = 0
						}
						if got := writes.withhold(name, a.to, event); got != a.want {
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
