package sweep

import (
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestARestartWritesNothing(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	stop := run(t, config)
	w.Apply(t, definitions)
	ns := testkit.Namespace(t, config)
	apply(chain+"---\n"+top+"---\n"+late)(t, w, ns)
	ready(kind("Chain"), "one")(t, w, ns)
	ready(kind("Top"), "here")(t, w, ns)
	stop()

	crash := testkit.NewCrash(0)
	crash.Log = func(line string) { t.Error("a restart wrote:", line) }
	stop = run(t, crash.Wrap(config))
	defer stop()
	<-time.After(3 * time.Second)
}
