package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// actor watches one selection of a kind. Its goroutine (run) alone owns the
// informer: it resolves the kind, lists, watches, and starts over with back-off
// when that ends. Others reach it in three ways that never wait for it: they
// read its state and its store, subscribe to it, and poke it.
//
// Its lock, its store's and its kind's router's are each held for a moment, with
// none of the others, and never during a call to a listener or to the network.
// The hub's may be held while one of them is taken, never the other way round.
type actor struct {
	*kind
	selection Selection
	filter    labels.Selector // of a selection by labels
	world     *world
	store     *store
	poke      chan struct{} // wakes it from its back-off
	born      time.Time

	mu          sync.Mutex
	state       State
	progress    progress
	interrupt   context.CancelFunc          // ends the session under way
	resource    schema.GroupVersionResource // what that session watches
	kindGone    bool                        // the CRD was deleted; not yet acted upon
	refresh     bool                        // the CRD changed; not yet listed anew
	second      *time.Timer                 // lists once more after the CRD changed
	wellSince   time.Time                   // it has been in sync since, in the attempt under way
	subscribers members[*listener]
	servings    []*Serving // replaced, not changed
	events      uint64

	// Guarded by the hub's lock.
	interests
	cancel context.CancelFunc
}

func newActor(w *world, k *kind, s Selection) *actor {
	now := time.Now()
	return &actor{
		kind: k, selection: s, filter: parsed(s.labels), world: w,
		store: newStore(w.OwnerLabel),
		poke:  make(chan struct{}, 1),
		state: State{Phase: Syncing, Since: now},
		born:  now,
	}
}

// run watches until the context ends.
func (a *actor) run(ctx context.Context) {
	defer a.store.close()
	defer func() {
		if a.current().Reason == Forbidden {
			a.world.barred(a.gvk, -1)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.second != nil {
			a.second.Stop()
		}
	}()
	var retry backoff
	var s *session
	for ctx.Err() == nil {
		var err error
		s, err = a.watch(ctx, s)
		switch {
		case errors.Is(err, errInterrupted):
			continue // there is news of the kind
		case errors.Is(err, errKindGone):
			retry.reset()
		case starting(err) && retry.delay == 0:
			retry.prompt() // it is about to go well
		default:
			retry.after(a.takeWell(time.Now()))
		}
		if err != nil && ctx.Err() == nil {
			a.world.Logger.V(1).Info("Watch ended", "kind", a.gvk, "selection", a.selection.class(), "reason", err.Error())
		}
		retry.pause(ctx, a.poke)
	}
}

// errKindGone ends an attempt that began with the news that the kind is deleted.
var errKindGone = errors.New("kind deleted")

// watch watches once, for as long as it goes well. It returns the session for
// the next attempt to go on with.
func (a *actor) watch(ctx context.Context, s *session) (*session, error) {
	if a.takeKindGone() {
		a.lose(&UnavailableError{Reason: WaitingForKind, Message: "the definition of " + a.gvk.Kind + " was deleted", Gone: true})
		return nil, errKindGone
	}
	s, err := a.resume(ctx, s)
	if err != nil {
		return s, err
	}
	err = s.run(ctx)
	if errors.Is(err, errInterrupted) {
		a.renew()
	}
	return s, err
}

// resume returns the session to run: the one that ended, so that its revision is
// where to go on from, or a new one if the kind is served elsewhere now.
func (a *actor) resume(ctx context.Context, s *session) (*session, error) {
	resource, err := a.world.Resolve(ctx, a.gvk)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if err != nil {
		why := classify(a.gvk, err)
		if why.Gone {
			a.lose(why)
			return nil, err
		}
		told := a.advance(func(p *progress) { p.failed(why, time.Now()) })
		if a.takeRefresh() && !told {
			a.tell() // the kind has changed, if not for the better: it may be served otherwise
		}
		return s, err
	}
	if s != nil && s.resource == resource {
		return s, nil
	}
	a.renew()
	return newSession(a, resource), nil
}

// lose empties the store and tells the subscribers: the kind doesn't exist, and
// so neither do its objects. The state says so before the first of them hears of
// it: who is woken by an object's end must not take what it can't read for gone.
func (a *actor) lose(why *UnavailableError) {
	gone := a.store.clear()
	a.advance(func(p *progress) {
		*p = progress{}
		p.failed(why, time.Now())
	})
	a.emit(gone, Subscriber{})
}

// renew begins a generation.
func (a *actor) renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Generation++
}

// advance changes the progress, and tells the subscribers if that changes what
// they see. It reports whether it did.
func (a *actor) advance(change func(*progress)) (told bool) {
	now := time.Now()
	a.mu.Lock()
	wasGone := a.progress.gone()
	change(&a.progress)
	if a.wellSince.IsZero() && a.progress.listed && a.progress.watching {
		a.wellSince = now
	}
	before := a.state
	a.state.Phase, a.state.Reason, a.state.Message = a.progress.state(now)
	// A kind that is gone has no objects, which is news also of one that couldn't be read.
	news := before.Phase != a.state.Phase || before.Reason != a.state.Reason || !wasGone && a.progress.gone()
	if news {
		a.state.Since = now
	}
	is := a.state
	a.mu.Unlock()
	switch {
	case before.Reason != Forbidden && is.Reason == Forbidden:
		a.world.barred(a.gvk, 1)
	case before.Reason == Forbidden && is.Reason != Forbidden:
		a.world.barred(a.gvk, -1)
	}
	if news {
		a.world.Logger.V(1).Info("Kind's state changed", "kind", a.gvk, "selection", a.selection.class(), // an object's name may come from a Secret
			"phase", is.Phase, "reason", is.Reason, "message", is.Message)
		a.tell()
	}
	return news
}

// kindChanged acts on news of the kind's definition, without waiting.
func (a *actor) kindChanged(change KindChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pending := a.kindGone
	a.kindGone = a.kindGone || change == KindDeleted
	if change == KindUpdated {
		a.refresh = true
		a.lookTwice()
	}
	watching := a.interrupt != nil
	if watching && change != KindAdded {
		a.interrupt()
	}
	if watching && !pending && (change != KindAdded || a.state.Phase == Synced) {
		return // it ends by itself, or it arrived long ago
	}
	select {
	case a.poke <- struct{}{}:
	default: // it is being woken already
	}
}

// secondLook is when a kind that was changed is listed once more: the API server
// takes a moment to read its objects the new way, and doesn't say when.
const secondLook = 3 * time.Second

// lookTwice lists once more after a while. The lock is held.
func (a *actor) lookTwice() {
	if a.second != nil {
		a.second.Reset(secondLook)
		return
	}
	a.second = time.AfterFunc(secondLook, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.second = nil
		if a.interrupt != nil {
			a.interrupt()
		}
	})
}

// takeWell tells for how long the attempt that ended was in sync, if it was.
func (a *actor) takeWell(now time.Time) (while time.Duration, well bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := a.wellSince
	a.wellSince = time.Time{}
	return now.Sub(since), !since.IsZero()
}

func (a *actor) takeRefresh() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	refresh := a.refresh
	a.refresh = false
	return refresh
}

func (a *actor) takeKindGone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	gone := a.kindGone
	a.kindGone = false
	return gone
}

// current returns the state now.
func (a *actor) current() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}
