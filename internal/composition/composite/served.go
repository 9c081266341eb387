package composite

import (
	"sync/atomic"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
)

// Served serves the composites of one kind.
type Served struct {
	*instance.Reconciler
	Runner pipeline.Runner

	calls atomic.Pointer[map[string]bool]
}

// Use has them composed by what the definition and its compositions are now.
func (s *Served) Use(snapshot xrd.Snapshot) {
	calls := map[string]bool{}
	for _, r := range snapshot.Revisions {
		for _, step := range r.Spec.Pipeline {
			calls[step.FunctionRef.Name] = true
		}
	}
	s.calls.Store(&calls)
	s.SetComposer(&Composer{Snapshot: snapshot, Runner: s.Runner, Now: s.Now})
}

// Calls says whether a function is called for some of them, as far as is known.
func (s *Served) Calls(function string) bool {
	calls := s.calls.Load()
	return calls != nil && (*calls)[function]
}
