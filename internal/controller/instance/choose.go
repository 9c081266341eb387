package instance

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// Chooser is a Composer in place of several: which one composes an instance follows from
// the instance. What it says itself holds where no instance is at hand.
type Chooser interface {
	Composer
	// Choose is the composer of an instance. For the same instance it is the same, until
	// another Chooser takes the place of this one. Composers that it returns can be
	// compared.
	Choose(instance *unstructured.Unstructured) Composer
}

// Choose is the composer of an instance.
func Choose(c Composer, instance *unstructured.Unstructured) Composer {
	if chooser, several := c.(Chooser); several {
		return chooser.Choose(instance)
	}
	return c
}

// Stay is a Composer that leaves an instance as it is, since it isn't known what it should
// be: nothing is made, changed or pruned. The Composer beside it is whose objects it may
// have.
type Stay struct {
	Composer
	Problem plan.Problem
}

// Compose says why the instance stays as it is.
func (s Stay) Compose(_ context.Context, facts plan.Facts, _ World) (plan.Desired, error) {
	status, _, _ := unstructured.NestedMap(facts.Instance.Object, "status")
	return plan.Desired{Problem: s.Problem, Status: status}, nil
}

// Standing is how an instance was when it was last seen through.
type Standing struct {
	// By is what it was composed by.
	By Composer
	// Ready says whether it was ready, and Reason and Message why not.
	Ready           bool
	Reason, Message string
}

// Standings remembers how the instances of a kind stand, for those who wait for that. It is
// safe for concurrent use. Losing it costs nothing: after a restart every instance is looked
// at.
type Standings struct {
	// Changed is told of a change; it must not block.
	Changed func()

	mu    sync.Mutex
	byKey map[object.Key]Standing
}

// Of is how an instance stands, as far as is known.
func (s *Standings) Of(key object.Key) (Standing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	standing, known := s.byKey[key]
	return standing, known
}

func (s *Standings) note(key object.Key, is Standing) {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.byKey == nil {
		s.byKey = map[object.Key]Standing{}
	}
	was, known := s.byKey[key]
	s.byKey[key] = is
	s.mu.Unlock()
	if !known || was != is {
		s.Changed()
	}
}

func (s *Standings) forget(key object.Key) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, key)
}

// stood notes how an instance stands at the end of a pass: as its author says, if he says
// whether it is ready, and otherwise as the dialect does.
func (r *Reconciler) stood(v *visit, own, shown condition.Set) {
	ready, said := shown.Get(v1alpha1.InstanceReady)
	if !said {
		ready, _ = own.Get(v1alpha1.InstanceReady)
	}
	is := Standing{By: v.composer, Ready: ready.Status == condition.True}
	if !is.Ready {
		is.Reason, is.Message = ready.Reason, ready.Message
	}
	r.Standings.note(v.key, is)
}
