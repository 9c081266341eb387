package aws_test

import (
	"runtime"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// maxKindMemory is how much memory of the provider a kind may take without objects, in bytes, on average.
const maxKindMemory = 128 << 10

// TestMemoryOfOpenKinds measures what the provider keeps of kinds, of types from the whole catalog.
func TestMemoryOfOpenKinds(t *testing.T) {
	p := aws.Provider(aws.Options{})
	names, err := p.Catalog.Match("*")
	if err != nil {
		t.Fatal(err)
	}
	const n = 100
	var kinds []managed.Kind
	open := func(i int) {
		kind, _, err := p.Catalog.Open(names[i*len(names)/n], false)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kind)
	}
	open(0) // reads the index, and what else there is once
	before := heap()
	for i := 1; i < n; i++ {
		open(i)
	}
	each := (heap() - before) / (n - 1)
	runtime.KeepAlive(kinds)
	t.Logf("a kind without objects keeps %d kB", each>>10)
	if each > maxKindMemory {
		t.Errorf("a kind without objects keeps %d kB", each>>10)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
