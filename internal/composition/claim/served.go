package claim

import (
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
)

// Served reconciles the claims of one kind.
type Served struct{ *instance.Reconciler }

// SetSnapshot sets the definition that claims are composed by.
func (s *Served) SetSnapshot(snapshot xrd.Snapshot) {
	s.SetComposer(&Composer{Definition: snapshot.Definition})
}
