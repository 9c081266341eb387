package plane

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastGarbage is for how many bytes of garbage the collector waits at least. A control plane with few objects keeps 150 MB,
// most of it schemas, and each request leaves about 100 kB of garbage: by default a busy one would spend a fifth of its CPU
// time on marking the same schemas again.
const leastGarbage = 384 << 20

// tuneGarbageCollection lets garbage accumulate up to what is in use, as by default, or up to leastGarbage if that is more.
// GOGC counts instead if it is set; GOMEMLIMIT bounds both.
func tuneGarbageCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	afterEachCollection(func(live uint64) bool {
		debug.SetGCPercent(garbagePercent(live))
		return true
	})
}

// afterEachCollection calls a function now and after each garbage collection, until it returns false, with the bytes of the
// heap that the last collection has found in use. It may be called in any goroutine.
func afterEachCollection(adjust func(live uint64) bool) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if adjust(sample[0].Value.Uint64()) {
		// The next collection finds that nothing refers to this object.
		runtime.AddCleanup(new(*byte), afterEachCollection, adjust)
	}
}

// garbagePercent is the value of GOGC for a heap of which so many bytes are in use.
func garbagePercent(live uint64) int {
	const initially = 32 << 20 // GOGC also scales the size of the heap at the first collection
	return max(100, int(100*leastGarbage/max(live, initially)))
}
