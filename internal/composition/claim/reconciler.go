package claim

import (
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
)

// Reconciler reconciles the claims of one kind.
type Reconciler struct{ *instance.Reconciler }

// SetSnapshot sets the definition that claims are composed by.
func (s *Reconciler) SetSnapshot(snapshot xrd.Snapshot) {
	s.SetComposer(&Composer{Definition: snapshot.Definition})
}
