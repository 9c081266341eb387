package membership

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/shard"
)

// TestAllReconcilesAreCancelledAtOnce has two slots end while a reconcile of the one waits for that of the other, for a
// lock, say.
func TestAllReconcilesAreCancelledAtOnce(t *testing.T) {
	for reason, lost := range map[string]bool{"released": false, "lost": true} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(Config{Duration: time.Hour, Log: logr.Discard()})
				slots := shard.Set{}.With(1).With(2)
				m.take(&ownRecord{Config: m.Config, renewed: time.Now()}, slots, 1)
				_, endFirst := m.Begin(t.Context(), 1)
				second, endSecond := m.Begin(t.Context(), 2)
				go func() {
					<-second.Done()
					endFirst()
					endSecond()
				}()
				released := make(chan struct{})
				go func() {
					defer close(released)
					m.release(slots, lost)
				}()
				select {
				case <-released:
				case <-time.After(2 * m.Grace):
					t.Error("the second reconcile is not cancelled before the first has ended")
					endFirst()
				}
				<-released
			})
		})
	}
}
