package sweep

import (
	"strings"
	"sync"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestARestartWritesNothing(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	stop := run(t, config)
	define(t, w)
	ns := testkit.Namespace(t, config)
	apply(chain+"---\n"+top+"---\n"+late)(t, w, ns)
	ready(kind("Chain"), "one")(t, w, ns)
	ready(kind("Top"), "here")(t, w, ns)
	stop()

	var (
		mu     sync.Mutex
		writes []string
	)
	crash := testkit.NewCrash(0)
	crash.Log = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		writes = append(writes, line)
	}
	stop = run(t, crash.Wrap(config))
	defer stop()
	// What was there before is looked at before what comes now: background work
	// of a kind's lane was queued earlier, by the first list.
	elsewhere := testkit.Namespace(t, config)
	apply(chain+"---\n"+top+"---\n"+late)(t, w, elsewhere)
	ready(kind("Chain"), "one")(t, w, elsewhere)
	ready(kind("Top"), "here")(t, w, elsewhere)
	mu.Lock()
	defer mu.Unlock()
	for _, line := range writes {
		if !strings.Contains(line, "/"+elsewhere+"/") {
			t.Error("the restart wrote:", line)
		}
	}
}
