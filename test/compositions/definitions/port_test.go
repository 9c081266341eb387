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
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit"
)

var updating = metav1.UpdateOptions{}

// recordingKinds serves kinds by adding and removing a finalizer, and records its snapshots.
type recordingKinds struct {
	cluster *cluster.Cluster

	mu      sync.Mutex
	served  []*servedKind
	changed chan struct{} // closed at the next change
}

// withCluster sets the client of the cluster.
func (p *recordingKinds) withCluster(k *cluster.Cluster) compositiondefinition.Reconcilers {
	p.cluster = k
	return p
}

func (p *recordingKinds) Composite(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) compositiondefinition.InstanceReconciler {
	return p.serve(d, kind, wake, v1.CompositeFinalizer)
}

func (p *recordingKinds) Claim(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) compositiondefinition.InstanceReconciler {
	return p.serve(d, kind, wake, v1.ClaimFinalizer)
}

func (p *recordingKinds) Stopped(s compositiondefinition.InstanceReconciler) {
	p.change(func() { s.(*servedKind).stopped = true })
}

func (p *recordingKinds) serve(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func(), finalizer string) *servedKind {
	s := &servedKind{port: p, of: d, kind: kind, wake: wake, finalizer: finalizer, reconciles: map[string]int{}}
	p.change(func() { p.served = append(p.served, s) })
	return s
}

func (p *recordingKinds) change(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// latest returns what served a kind last; nil if nothing did.
func (p *recordingKinds) latest(kind schema.GroupVersionKind) *servedKind {
	for _, s := range slices.Backward(p.served) {
		if s.kind == kind {
			return s
		}
	}
	return nil
}

// await waits until what serves a kind passes a check.
func (p *recordingKinds) await(t *testing.T, kind schema.GroupVersionKind, so func(*servedKind) error) *servedKind {
	t.Helper()
	patience := time.NewTimer(testkit.Timeout)
	defer patience.Stop()
	for {
		p.mu.Lock()
		s, err := p.latest(kind), errors.New("nothing serves it")
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

// servedKind serves one kind.
type servedKind struct {
	port       *recordingKinds
	of         *v1.CompositeResourceDefinition
	kind       schema.GroupVersionKind
	wake       func()
	finalizer  string
	used       []compositiondefinition.Snapshot
	reconciles map[string]int
	stopped    bool
}

func (s *servedKind) SetSnapshot(snapshot compositiondefinition.Snapshot) {
	s.port.change(func() { s.used = append(s.used, snapshot) })
}

// blockAnnotation is an annotation by which a test blocks the deletion of an object.
const blockAnnotation = "test/holding"

func (s *servedKind) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	k := s.port.cluster
	defer s.port.change(func() { s.reconciles[key.Name]++ })
	o, ok := k.Hub.GetCached(s.kind, key.Namespace, key.Name)
	if !ok {
		s.wake()
		return reconcile.Done()
	}
	ours := slices.Contains(o.GetFinalizers(), s.finalizer)
	going := o.GetDeletionTimestamp() != nil
	var err error
	switch {
	case going && ours && o.GetAnnotations()[blockAnnotation] == "":
		_, err = k.Client.RemoveFinalizers(ctx, o, []string{s.finalizer}, "test")
	case !going && !ours:
		_, err = k.Hub.Write(watch.Subscriber{Key: key}, func() (*unstructured.Unstructured, error) {
			return k.Client.SetFinalizers(ctx, o, append(slices.Clone(o.GetFinalizers()), s.finalizer), "test")
		})
	}
	if err != nil && !kube.IsStale(err) {
		return reconcile.Fail(err)
	}
	return reconcile.Done()
}

// snapshotHas checks the numbers of compositions and revisions in a snapshot.
func snapshotHas(compositions, revisions int) func(*servedKind) error {
	return func(s *servedKind) error {
		if len(s.used) == 0 {
			return errors.New("has been given nothing")
		}
		if last := s.used[len(s.used)-1]; len(last.Compositions) != compositions || len(last.Revisions) != revisions {
			return fmt.Errorf("has %d compositions and %d revisions", len(last.Compositions), len(last.Revisions))
		}
		return nil
	}
}
