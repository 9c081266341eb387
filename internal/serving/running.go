package serving

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/ending"
)

// Running is the controller of one of a definition's kinds, or none. The zero value is none.
type Running struct {
	*queue.Controller
	// identity is what the controller was started for: another incarnation of the definition is another.
	identity any
	stopped  func()

	// deleted are the instances that were requested to be deleted, and refused the ones with a refused request, while
	// the definition is being deleted; reported is the count that was last reported.
	deleted  map[types.UID]struct{}
	refused  map[types.UID]string
	reported ending.Count
	// confirmed says that a CustomResourceDefinition that is not in the cache now does not exist: it was there before, or
	// was read, while the definition was being deleted.
	confirmed bool
}

// Is reports whether a controller runs for a kind, and for this identity.
func (r *Running) Is(kind schema.GroupVersionKind, identity any) bool {
	return r.Controller != nil && r.Kind == kind && r.identity == identity
}

// Replace runs a controller in place of the one that runs, if any. Identity must be comparable; stopped is called when
// the controller has been stopped, and may be nil.
func (r *Running) Replace(identity any, start func() *queue.Controller, stopped func()) {
	r.Stop()
	r.identity, r.stopped = identity, stopped
	r.Controller = start()
}

// Stop stops the controller and waits until none of its reconciles runs.
func (r *Running) Stop() {
	if r.Controller == nil {
		return
	}
	r.Controller.Stop()
	if r.stopped != nil {
		r.stopped()
	}
	r.Controller, r.identity, r.stopped = nil, nil, nil
}

// Remaining is what is known of the instances that a deleted definition waits for.
type Remaining struct {
	// Kind is their kind.
	Kind    string
	Objects []*unstructured.Unstructured
	State   watch.State
	// Refused says, of each that could not be deleted, why.
	Refused map[types.UID]string
}

// Known reports whether all of them are known.
func (n *Remaining) Known() bool { return n.State.Phase == watch.Synced }

func (n *Remaining) count(now time.Time) ending.Count {
	out := ending.Count{N: len(n.Objects), At: now}
	if !n.Known() {
		out.Unknown = string(n.State.Phase) + ": " + n.State.Message
	}
	return out
}

const (
	// parallelDeletions limits the deletions in flight.
	parallelDeletions = 16
	// maxErrors limits the errors of deletions that are returned.
	maxErrors = 3
)

// Each deletion is requested once. Refused ones are recorded.
func (r *Running) delete(ctx context.Context, cluster *kube.Client, kind schema.GroupVersionKind, objects []*unstructured.Unstructured) error {
	before := r.deleted
	r.deleted, r.refused = map[types.UID]struct{}{}, map[types.UID]string{}
	var (
		mu    sync.Mutex
		errs  []error
		group errgroup.Group
	)
	group.SetLimit(parallelDeletions)
	for _, o := range objects {
		if _, requested := before[o.GetUID()]; requested || o.GetDeletionTimestamp() != nil {
			mu.Lock()
			r.deleted[o.GetUID()] = struct{}{}
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			o := o.DeepCopy()
			o.SetGroupVersionKind(kind)
			err := cluster.Delete(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				r.deleted[o.GetUID()] = struct{}{}
				return nil
			}
			r.refused[o.GetUID()] = err.Error()
			errs = append(errs, fmt.Errorf("delete %s %s: %w", kind.Kind, NameOf(o), err))
			return nil
		})
	}
	_ = group.Wait() // the functions return no error: errs has them all
	return errors.Join(errs[:min(len(errs), maxErrors)]...)
}

// NameOf names an object within its kind.
func NameOf(o *unstructured.Unstructured) string {
	return strings.TrimPrefix(object.KeyOf(o).String(), o.GetKind()+" ")
}
