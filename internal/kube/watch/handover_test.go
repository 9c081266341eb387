package watch

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/object"
)

// A subscriber moves to the watch of the whole kind while that of the managed objects is still open, and behind. It is woken
// when what it reads changes, whichever watch it reads from.
func TestASubscriberOfAnotherWatchReadsWhatItIsWokenFor(t *testing.T) {
	const i = "i"
	before := made(configMap, "a/x", 1, partOf, "o", "content", "one")
	lost := func(string) error { return errors.New("the connection is lost") }
	cases := map[string]struct {
		reason  string
		degrade func(managed, whole *script)
		want    string
	}{
		"The former watch is broken": {
			reason:  "the watch of the whole kind has delivered the change",
			degrade: func(managed, _ *script) { managed.fail(lost) },
			want:    "two, Synced",
		},
		"The watch of the whole kind is forbidden": {
			reason:  "the former watch ends without having delivered the change",
			degrade: func(managed, whole *script) { managed.fail(lost); whole.fail(forbidIn("")) },
			want:    "one, Unavailable",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			managed, whole := newScript(before), newScript(before)
			withScriptedHub(t, scripts{configMap: managed}, func(t *testing.T, s *scriptedHub) {
				s.env.open = func(_ Resource, selection Selection) source {
					if selection == All() {
						return whole
					}
					return managed
				}
				last := ""
				reconcile := func() {
					lease := s.BeginWithinQuota(subscriberOf(i))
					defer lease.Commit()
					objects, state := lease.Children(configMap, "o")
					last = string(state.Phase)
					for _, o := range objects {
						last = o.GetLabels()["content"] + ", " + last
					}
				}
				reconcile()
				synctest.Wait()
				controller := s.WatchKind(configMap, func(object.Key, Cause) {})
				defer controller.Stop()
				synctest.Wait()
				reconcile()
				tc.degrade(managed, whole)
				whole.put(made(configMap, "a/x", 0, partOf, "o", "content", "two"))
				synctest.Wait()
				for range 20 { // longer than the grace period
					for _, woken := range s.recorder.take() {
						if strings.HasPrefix(woken, i+":") {
							reconcile()
						}
					}
					pass(3 * time.Second)
				}
				if last != tc.want {
					t.Errorf("%s: the last reconcile read %q, want %q", tc.reason, last, tc.want)
				}
			})
		})
	}
}
