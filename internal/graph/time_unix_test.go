//go:build unix && !race

package graph_test

import (
	"syscall"
	"testing"
	"time"
)

// What a definition of 200 nodes may take on a machine of today, and how many times as
// long before the test fails: it runs on slow machines as well.
const (
	compileTime = 300 * time.Millisecond
	composeTime = 5 * time.Millisecond
	patience    = 3
)

// TestALargeDefinitionIsCompiledAndComposedInTime measures the fastest of a few runs, by
// the time of processors: others may use them at the same time.
func TestALargeDefinitionIsCompiledAndComposedInTime(t *testing.T) {
	d, kinds := large(t)
	g := compiled(t, d, kinds)
	facts := settled(t, g)
	for name, tc := range map[string]struct {
		limit time.Duration
		turns int
		run   func()
	}{
		"compile": {compileTime, 1, func() { compiled(t, d, kinds) }},
		"compose": {composeTime, 20, func() { g.Compose(facts) }},
	} {
		fastest := time.Hour
		for range 5 {
			began := spent(t)
			for range tc.turns {
				tc.run()
			}
			fastest = min(fastest, (spent(t)-began)/time.Duration(tc.turns))
		}
		t.Logf("%s: %s", name, fastest)
		if fastest > patience*tc.limit {
			t.Errorf("%s takes %s, more than %d times the %s that it may", name, fastest, patience, tc.limit)
		}
	}
}

// spent is the processor time of this process.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
