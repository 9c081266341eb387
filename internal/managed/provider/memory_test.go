package provider_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// maxKindMemory is how much memory a served kind without objects may take, with what client-go and
// the fake API server keep for its watch.
const maxKindMemory = 200 << 10

// TestMemoryOfAnActivatedKind measures what a served kind without objects takes, and what is left
// once it is deactivated.
func TestMemoryOfAnActivatedKind(t *testing.T) {
	if testing.Short() {
		t.Skip("serves a hundred kinds")
	}
	const kinds = 100
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(kinds)
		stop := w.start(t, w.Config())
		defer stop()
		// One round warms up what is allocated once.
		w.Add(activate("net::*"))
		pass(time.Minute)
		w.edit(map[string]any{})
		pass(2 * time.Hour)
		before := memory()
		w.edit(map[string]any{"types": []any{"net::*"}})
		pass(time.Minute)
		served := memory()
		check(t, "Ready", w.ready(activationKey), "True Active: 100 kinds are served")
		w.edit(map[string]any{})
		pass(2 * time.Hour)
		after := memory()
		t.Logf("%d KiB for each kind, with the fake API server; %d KiB are left", (served-before)/kinds>>10, (after-before)/kinds>>10)
		if served-before > kinds*maxKindMemory {
			t.Errorf("a kind takes %d bytes", (served-before)/kinds)
		}
	})
}

// memory is what the heap and the stacks take. It includes the fake API server, which has a
// goroutine for each watch and keeps all events.
func memory() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}
