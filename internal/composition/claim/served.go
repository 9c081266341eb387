package claim

import (
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
)

// Served serves the claims of one kind.
type Served struct{ *instance.Reconciler }

// Use has them be what the definition says now.
func (s *Served) Use(snapshot xrd.Snapshot) {
	s.SetComposer(&Composer{Definition: snapshot.Definition})
}
