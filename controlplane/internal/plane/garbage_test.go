package plane

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGarbageIsCollectedLaterWhileLittleIsInUse(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 1200, 150 * mib: 256, 384 * mib: 100, 3000 * mib: 100} {
		if got := garbagePercent(live); got != want {
			t.Errorf("with %d MiB in use: %d %%", live/mib, got)
		}
	}
}

// TestTheCollectorIsAdjustedAfterEachCollection keeps more in use at each collection.
func TestTheCollectorIsAdjustedAfterEachCollection(t *testing.T) {
	lives := make(chan uint64)
	done := make(chan struct{})
	defer close(done)
	go afterEachCollection(func(live uint64) bool {
		select {
		case lives <- live:
			return true
		case <-done:
			return false
		}
	})
	var kept [][]byte
	last := <-lives
	for range 3 {
		kept = append(kept, make([]byte, 32<<20))
		runtime.GC()
		live := <-lives
		if live < last+30<<20 {
			t.Errorf("32 MiB more are in use: it is called with %d MiB after %d MiB", live>>20, last>>20)
		}
		last = live
	}
	runtime.KeepAlive(kept)
}

func TestGOGCCountsIfItIsSet(t *testing.T) {
	before := debug.SetGCPercent(70)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "70")
	tuneGarbageCollection()
	if got := debug.SetGCPercent(70); got != 70 {
		t.Errorf("the collector waits for %d %% of garbage", got)
	}
}
