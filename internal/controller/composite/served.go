package composite

import (
	"github.com/espalier-dev/espalier/internal/controller/instance"
	"github.com/espalier-dev/espalier/internal/pipeline"
	"github.com/espalier-dev/espalier/internal/xrd"
)

// Served serves the composites of one kind.
type Served struct {
	*instance.Reconciler
	Runner pipeline.Runner
}

// Use has them composed by what the definition and its compositions are now.
func (s *Served) Use(snapshot xrd.Snapshot) {
	s.SetComposer(&Composer{Snapshot: snapshot, Runner: s.Runner, Now: s.Now})
}
