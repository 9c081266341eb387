package composite

import (
	"sync/atomic"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
)

// NewReconciler returns a reconciler that composes with a runner of functions.
func NewReconciler(r *instance.Reconciler, runner pipeline.Runner) *Reconciler {
	out := &Reconciler{Reconciler: r, Runner: runner}
	r.Forgotten = out.memories.Forget
	return out
}

// Reconciler reconciles the composites of one kind.
type Reconciler struct {
	*instance.Reconciler
	Runner pipeline.Runner

	memories Memories
	// functions are the functions that the compositions of the snapshot call.
	functions atomic.Pointer[map[string]bool]
}

// SetSnapshot sets the definition and the compositions that composites are composed by.
func (s *Reconciler) SetSnapshot(snapshot xrd.Snapshot) {
	calls := map[string]bool{}
	for _, r := range snapshot.Revisions {
		for _, step := range r.Spec.Pipeline {
			calls[step.FunctionRef.Name] = true
		}
	}
	s.functions.Store(&calls)
	s.SetComposer(&Composer{Snapshot: snapshot, Runner: s.Runner, Now: s.Now, Memories: &s.memories})
}

// CallsFunction reports whether a composition of the snapshot calls a function. It is false before the first
// snapshot.
func (s *Reconciler) CallsFunction(function string) bool {
	calls := s.functions.Load()
	return calls != nil && (*calls)[function]
}
