package claim

import (
	"github.com/espalier-dev/espalier/internal/controller/instance"
	"github.com/espalier-dev/espalier/internal/xrd"
)

// Served serves the claims of one kind.
type Served struct{ *instance.Reconciler }

// Use has them be what the definition says now.
func (s *Served) Use(snapshot xrd.Snapshot) {
	s.SetComposer(&Composer{Definition: snapshot.Definition})
}
