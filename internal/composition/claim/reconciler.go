package claim

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Reconciler reconciles the claims of one kind.
type Reconciler struct{ *instance.Reconciler }

// SetSnapshot sets the definition that claims are composed by.
func (s *Reconciler) SetSnapshot(snapshot xrd.Snapshot) { s.SetComposer(composerOf(snapshot, s.Keys)) }

// composerOf returns the composer of claims. If the kind of their composites belongs to another owner, it leaves
// claims unchanged.
func composerOf(snapshot xrd.Snapshot, keys inventory.Keys) instance.Composer {
	composer := &Composer{Definition: snapshot.Definition, Keys: keys}
	if !snapshot.ForeignComposites {
		return composer
	}
	return instance.Frozen{Composer: composer, Problem: plan.Problem{Reason: plan.NotOwned, Message: fmt.Sprintf(
		"the kind %s does not belong to CompositeResourceDefinition %s, which says why in its condition Established; the claim is not changed until it does",
		snapshot.Definition.CompositeKind().Kind, snapshot.Definition.Name)}}
}
