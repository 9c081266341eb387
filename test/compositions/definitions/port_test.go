package definitions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	compositiondefinition "github.com/espalier-dev/espalier/internal/composition/definition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/manager/cluster"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit"
)

var updating = metav1.UpdateOptions{}

// port serves kinds by putting a finalizer on and taking it off again, and remembers
// what it was given.
type port struct {
	cluster *cluster.Cluster

	mu      sync.Mutex
	served  []*served
	changed chan struct{} // closed at the next change
}

// on lets it work on a cluster.
func (p *port) on(k *cluster.Cluster) compositiondefinition.Kinds {
	p.cluster = k
	return p
}

func (p *port) Composite(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) compositiondefinition.Served {
	return p.serve(d, kind, wake, v1.CompositeFinalizer)
}

func (p *port) Claim(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) compositiondefinition.Served {
	return p.serve(d, kind, wake, v1.ClaimFinalizer)
}

func (p *port) serve(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func(), finalizer string) *served {
	s := &served{port: p, of: d, kind: kind, wake: wake, finalizer: finalizer, passes: map[string]int{}}
	p.tell(func() { p.served = append(p.served, s) })
	return s
}

func (p *port) tell(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// last is what served a kind last; nil if nothing has.
func (p *port) last(kind schema.GroupVersionKind) *served {
	for _, s := range slices.Backward(p.served) {
		if s.kind == kind {
			return s
		}
	}
	return nil
}

// await waits until what serves a kind is as it should be.
func (p *port) await(t *testing.T, kind schema.GroupVersionKind, so func(*served) error) *served {
	t.Helper()
	patience := time.NewTimer(testkit.Patience)
	defer patience.Stop()
	for {
		p.mu.Lock()
		s, err := p.last(kind), errors.New("nothing serves it")
		if s != nil {
			err = so(s)
		}
		if err == nil {
			p.mu.Unlock()
			return s
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		next := p.changed
		p.mu.Unlock()
		select {
		case <-next:
		case <-patience.C:
			t.Fatalf("%s: %v", kind, err)
		}
	}
}

// served serves one kind.
type served struct {
	port      *port
	of        *v1.CompositeResourceDefinition
	kind      schema.GroupVersionKind
	wake      func()
	finalizer string
	used      []compositiondefinition.Snapshot
	passes    map[string]int
}

func (s *served) Use(snapshot compositiondefinition.Snapshot) {
	s.port.tell(func() { s.used = append(s.used, snapshot) })
}

// holding is an annotation by which a test keeps an object from going.
const holding = "test/holding"

func (s *served) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	k := s.port.cluster
	defer s.port.tell(func() { s.passes[key.Name]++ })
	o, ok := k.Hub.Served(s.kind, key.Namespace, key.Name)
	if !ok {
		s.wake()
		return reconcile.Done()
	}
	ours := slices.Contains(o.GetFinalizers(), s.finalizer)
	going := o.GetDeletionTimestamp() != nil
	var err error
	switch {
	case going && ours && o.GetAnnotations()[holding] == "":
		_, err = k.Client.RemoveFinalizers(ctx, o, []string{s.finalizer}, "test")
	case !going && !ours:
		_, err = k.Hub.Write(o, watch.Subscriber{Key: key}, func() (*unstructured.Unstructured, error) {
			return k.Client.SetFinalizers(ctx, o, append(slices.Clone(o.GetFinalizers()), s.finalizer), "test")
		})
	}
	if err != nil && !kube.IsGone(err) {
		return reconcile.Fail(err)
	}
	return reconcile.Done()
}

// uses wants a snapshot with so many compositions and revisions.
func uses(compositions, revisions int) func(*served) error {
	return func(s *served) error {
		if len(s.used) == 0 {
			return errors.New("has been given nothing")
		}
		if last := s.used[len(s.used)-1]; len(last.Compositions) != compositions || len(last.Revisions) != revisions {
			return fmt.Errorf("has %d compositions and %d revisions", len(last.Compositions), len(last.Revisions))
		}
		return nil
	}
}
