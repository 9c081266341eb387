package hold

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnreadableHoldsAreLoggedAfterADelay(t *testing.T) {
	cases := map[string]struct {
		reason string
		story  func(b *unreadableState)
		want   []string
	}{
		"A kind that is about to be served": {
			reason: "every start has such a moment",
			story: func(b *unreadableState) {
				b.set("WaitingForKind", "no kind Hold")
				after(time.Second)
				b.clear()
				after(time.Minute)
			},
		},
		"Rights that are missing": {
			reason: "nothing is reconciled, and somebody has to know why",
			story: func(b *unreadableState) {
				b.set("Forbidden", "cannot list holds")
				after(time.Minute)
			},
			want: []string{"Forbidden: cannot list holds"},
		},
		"The same told again and again": {
			reason: "it is one thing, and began with the first",
			story: func(b *unreadableState) {
				for range 100 {
					b.set("Forbidden", "cannot list holds")
					after(time.Second)
				}
			},
			want: []string{"Forbidden: cannot list holds"},
		},
		"Another reason": {
			reason: "it is what stands in the way now",
			story: func(b *unreadableState) {
				b.set("WaitingForKind", "no kind Hold")
				after(time.Second)
				b.set("Forbidden", "cannot list holds")
				after(time.Minute)
			},
			want: []string{"Forbidden: cannot list holds"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged []string
				tc.story(&unreadableState{log: func(reason, message string) { logged = append(logged, reason+": "+message) }})
				synctest.Wait()
				if !slices.Equal(logged, tc.want) {
					t.Errorf("%s: logged %q", tc.reason, logged)
				}
			})
		})
	}
}

// after lets the bubble's time go on.
func after(d time.Duration) { <-time.After(d) }
