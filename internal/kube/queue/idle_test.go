package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
)

func TestAnEngineIsIdleUntilTheNextReconcileIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{})
		expect := func(want bool, within time.Duration, when string) {
			t.Helper()
			if got := e.Idle(within); got != want {
				t.Errorf("%s, within %s: %t", when, within, got)
			}
		}
		expect(true, time.Hour, "without a controller")
		k := e.open(&Controller{})
		expect(true, time.Hour, "without keys")
		k.AddAfter(key("a"), time.Minute, watch.Normal, nil)
		expect(true, time.Second, "with a delayed key")
		expect(false, 2*time.Minute, "with a delayed key")
		<-time.After(time.Minute - time.Second)
		synctest.Wait()
		expect(false, 2*time.Second, "when the key is nearly due")
		<-time.After(time.Second)
		synctest.Wait()
		expect(false, 0, "with a key that waits")
		next, _ := k.get()
		expect(false, 0, "while the key is reconciled")
		next.Done()
		expect(true, time.Hour, "when that has ended")
	})
}
