package establish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// stage is the end of one of a definition's kinds.
type stage struct {
	finalizer string
	serving   *serving
	crd       *extv1.CustomResourceDefinition
	make      maker
	condition string // its type
}

// retire lets a deleted definition go: it deletes the claims and then the composites, of
// all namespaces, which stay served for that, and then takes back the kinds.
func (r *Reconciler) retire(ctx context.Context, v *visit) outcome.Outcome {
	if out := r.endAll(ctx, v); out.Settled() {
		return out
	}
	v.entry.claim.halt()
	v.entry.composite.halt()
	r.Hub.Forget(watch.Subscriber{Key: v.key})
	return outcome.Done()
}

// endAll ends one kind after the other.
func (r *Reconciler) endAll(ctx context.Context, v *visit) outcome.Outcome {
	composite, claim := r.owned(v)
	stages := []stage{
		{v1.OfferedFinalizer, &v.entry.claim, claim, r.Kinds.Claim, v1.TypeOffered},
		{v1.DefinitionFinalizer, &v.entry.composite, composite, r.Kinds.Composite, v1.TypeEstablished},
	}
	lease := r.Hub.Begin(watch.Subscriber{Key: v.key})
	defer lease.Commit()
	for _, s := range stages {
		if !slices.Contains(v.raw.GetFinalizers(), s.finalizer) {
			continue
		}
		if s.condition == v1.TypeOffered { // claims take their composites down
			r.attend(v, &v.entry.composite, composite, r.Kinds.Composite)
		}
		if out := r.end(ctx, v, lease, s); out.Settled() {
			return out
		}
		if out := r.release(ctx, v, s.finalizer); out.Settled() {
			return out
		}
	}
	return outcome.Outcome{}
}

// end ends a kind: its objects, what serves it, and its CustomResourceDefinition, each
// once the one before is gone.
func (r *Reconciler) end(ctx context.Context, v *visit, lease *watch.Lease, s stage) outcome.Outcome {
	if s.crd == nil { // it was never there, is gone, or has become somebody else's
		s.serving.halt()
		return outcome.Outcome{}
	}
	if crd.Established(s.crd) { // else it has never had an object
		if out := r.empty(ctx, v, lease, s); out.Settled() {
			return out
		}
	}
	if err := r.publisher().Delete(ctx, s.crd); err != nil {
		return outcome.Fail(err)
	}
	return r.reportEnding(ctx, v, s, nil)
}

// empty deletes the objects of a kind and waits until they are gone. What serves the kind is
// halted then, and what has come in the meantime is seen to: with nobody to claim it, what
// is counted after that is all there is.
func (r *Reconciler) empty(ctx context.Context, v *visit, lease *watch.Lease, s stage) outcome.Outcome {
	kind, served := version(s.crd)
	left := remaining{kind: s.crd.Spec.Names.Kind}
	if !served {
		left.state = watch.State{Phase: watch.Unavailable, Message: "no version of it is served"}
		return r.reportEnding(ctx, v, s, &left)
	}
	left.objects, left.state = lease.Matching(kind, "", labels.Everything())
	if !left.hold() {
		s.serving.halt()
		left.objects, left.state = lease.Matching(kind, "", labels.Everything())
	}
	if !left.hold() {
		return outcome.Outcome{}
	}
	r.attend(v, s.serving, s.crd, s.make)
	failed := r.deleteAll(ctx, s.serving, kind, left.objects)
	left.refused = s.serving.refused
	out := r.reportEnding(ctx, v, s, &left)
	if failed != nil && out.Err == nil {
		return outcome.Fail(failed)
	}
	return out
}

// sideBySide bounds the deletions that are under way at a time.
const sideBySide = 16

// deleteAll asks for the deletion of each object, once. It notes what is refused.
func (r *Reconciler) deleteAll(ctx context.Context, s *serving, kind schema.GroupVersionKind, objects []*unstructured.Unstructured) error {
	was := s.asked
	s.asked, s.refused = map[types.UID]struct{}{}, map[types.UID]string{}
	var (
		mu     sync.Mutex
		failed []error
		group  errgroup.Group
	)
	group.SetLimit(sideBySide)
	for _, o := range objects {
		if _, asked := was[o.GetUID()]; asked || o.GetDeletionTimestamp() != nil {
			s.asked[o.GetUID()] = struct{}{}
			continue
		}
		group.Go(func() error {
			o := o.DeepCopy()
			o.SetGroupVersionKind(kind)
			err := r.Cluster.Delete(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				s.asked[o.GetUID()] = struct{}{}
				return nil
			}
			s.refused[o.GetUID()] = err.Error()
			failed = append(failed, fmt.Errorf("delete %s %s: %w", kind.Kind, name(o), err))
			return nil
		})
	}
	_ = group.Wait() // none of them returns an error: all are noted
	return errors.Join(failed[:min(len(failed), mostTold)]...)
}

// release takes a finalizer off the definition.
func (r *Reconciler) release(ctx context.Context, v *visit, finalizer string) outcome.Outcome {
	last := len(v.raw.GetFinalizers()) == 1
	answer, err := r.Cluster.RemoveFinalizers(ctx, v.raw, []string{finalizer}, Manager)
	if cluster.IsGone(err) {
		return outcome.Overtaken()
	}
	if err != nil {
		r.refused(v, telemetry.FailedFinalizer, "a finalizer can't be taken off", err)
		return outcome.Fail(fmt.Errorf("take finalizer %s off: %w", finalizer, err))
	}
	if !last { // the last one's answer is of an object that is gone
		r.Hub.Record(answer, watch.Subscriber{Key: v.key})
		v.raw = answer
	}
	return outcome.Outcome{}
}
