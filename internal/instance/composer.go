package instance

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Composer says what an instance should consist of now, given what has been observed.
// Implementations are immutable and safe for concurrent use.
type Composer interface {
	// Compose decides from the facts alone. What it needs of the cluster besides, it returns in Desired.Needs: that is
	// read and watched, and Compose is called again; the rest of its answer counts only once everything has been read. It
	// is called again, too, when acting on its answer has made new facts.
	Compose(ctx context.Context, facts plan.Facts) (plan.Desired, error)
	// ChildKinds lists the kinds of the objects that instances may consist of, as far as they are
	// known beforehand.
	ChildKinds() []schema.GroupVersionKind
	// Depth bounds the rounds of one reconcile: it is the number of layers of the nodes.
	Depth() int
	// StatusFields are the engine's own fields that the kind's status has.
	StatusFields() report.FieldSet
	// Defaults are the definition's policies for the deletion of instances.
	Defaults() inventory.Defaults
	// SchemaUnknown reports whether the schema of a kind was unknown when the composer was made: the kind's nodes wait
	// for a new composer.
	SchemaUnknown(schema.GroupVersionKind) bool
}

// ComposeReading composes an instance outside of a reconcile, and reads what its composer needs.
func ComposeReading(ctx context.Context, c Composer, facts plan.Facts, read func(plan.Need) plan.Lookup) (plan.Desired, error) {
	facts.External = map[plan.Need]plan.Lookup{}
	for {
		desired, err := c.Compose(ctx, facts)
		more := false
		for _, need := range desired.Needs {
			if _, known := facts.External[need]; !known {
				facts.External[need], more = read(need), true
			}
		}
		if err != nil || !more {
			return desired, err
		}
	}
}
