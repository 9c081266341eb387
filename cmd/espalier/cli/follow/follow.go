package follow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// follower watches the objects of a tree: the kinds and namespaces in the inventories of its
// instances, and no others.
type follower struct {
	tree
	watches *reader.Watches
	root    *reader.Objects
	watched map[lookup]watchedLookup
}

type watchedLookup struct {
	*reader.Objects
	stop context.CancelFunc
}

// kindRetryInterval is how often unknown kinds are looked up again.
const kindRetryInterval = time.Second

// Follow sends the state of a tree once all of it has been read, and then after each change;
// changes while the receiver is busy are sent as one. It returns the context's cause when the
// context ends, and nil after it has sent a state without the target.
func Follow(ctx context.Context, c *reader.Cluster, t reader.Target, states chan<- observe.ClusterState) error {
	return c.Watching(ctx, func(ctx context.Context, watches *reader.Watches) error {
		f := &follower{tree: newTree(c, t), watches: watches, watched: map[lookup]watchedLookup{}}
		f.root = watches.Watch(ctx, t.Query(), nil, cache.DefaultWatchErrorHandler)
		retry := time.AfterFunc(kindRetryInterval, watches.Wake)
		retry.Stop() // until a kind is unknown
		defer retry.Stop()
		begun := false
		return watches.Run(ctx, func() (done bool, err error) {
			if err := f.root.Problem(); reader.IsRefusal(err) {
				return false, fmt.Errorf("watch %s: %w", t, err)
			}
			if !f.root.HasSynced() {
				return false, nil
			}
			state, complete, err := f.readState(ctx)
			if err != nil {
				return false, err
			}
			if retry.Stop(); !complete {
				retry.Reset(kindRetryInterval)
			}
			if begun = begun || f.haveEnded(); !begun {
				return false, nil
			}
			return state.Gone(), reader.Send(ctx, states, state)
		})
	})
}

// readState collects the objects of all watches, and starts and stops watches accordingly: the
// children of a new instance are watched, those of an instance that is gone are not. Complete
// is false while kinds are unknown.
func (f *follower) readState(ctx context.Context) (state observe.ClusterState, complete bool, err error) {
	roots := slices.DeleteFunc(f.root.All(), func(o *unstructured.Unstructured) bool { return !f.target.Matches(o) })
	wanted := map[lookup]bool{}
	state, complete, err = f.collect(ctx, roots, func(l lookup) ([]*unstructured.Unstructured, bool, error) {
		wanted[l] = true
		if _, isWatched := f.watched[l]; !isWatched {
			until, stop := context.WithCancel(ctx)
			f.watched[l] = watchedLookup{f.watches.Watch(until, l.Query, nil, cache.DefaultWatchErrorHandler), stop}
		}
		return f.watched[l].All(), reader.IsRefusal(f.watched[l].Problem()), nil
	})
	if err != nil {
		return state, false, err
	}
	for at, w := range f.watched {
		if !wanted[at] {
			w.stop()
			delete(f.watched, at)
		}
	}
	return state, complete, nil
}

// haveEnded reports whether all watches have read what they can.
func (f *follower) haveEnded() bool {
	for _, w := range f.watched {
		if !w.HasSynced() && !reader.IsRefusal(w.Problem()) {
			return false
		}
	}
	return true
}
