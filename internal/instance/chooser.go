package instance

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Chooser is a Composer that delegates to another one, which it chooses by the instance. Its own answers are used where
// there is no instance.
type Chooser interface {
	Composer
	// Choose returns the composer of an instance: the same one for the same instance. Composers
	// that it returns are comparable.
	Choose(instance *unstructured.Unstructured) Composer
}

// Choose returns the composer of an instance.
func Choose(c Composer, instance *unstructured.Unstructured) Composer {
	if chooser, several := c.(Chooser); several {
		return chooser.Choose(instance)
	}
	return c
}

// Frozen is a Composer that leaves an instance unchanged, because its desired state isn't known:
// nothing is created, changed or pruned. The embedded Composer names the kinds that it may
// consist of.
type Frozen struct {
	Composer
	Problem plan.Problem
}

// Compose returns the problem, and the author's status as it is.
func (f Frozen) Compose(_ context.Context, facts plan.Facts) (plan.Desired, error) {
	status, _, _ := unstructured.NestedMap(facts.Instance.Object, "status")
	return plan.Desired{Problem: f.Problem, Status: status}, nil
}
