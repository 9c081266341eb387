package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/listwatch"
)

// actor watches one selection of a kind. Only its goroutine (run) uses the reflector: it
// resolves the kind, lists, watches, and starts over with backoff when that ends. Other
// goroutines never wait for it: they read its state and its store, subscribe to it, and
// make it retry now.
//
// Its lock, its store's and its kind's router's are each held for a moment, without the
// others, and never during a call to a listener or to the network. The hub's lock may be
// held while one of them is taken, never the other way round.
type actor struct {
	*kind
	selection Selection
	filter    labels.Selector // of a selection by labels
	env       *environment
	store     *store
	bounds    listwatch.Bounds // of the reflector's requests
	retryNow  chan struct{}    // ends the backoff
	createdAt time.Time

	mu          sync.Mutex
	state       State
	progress    progress
	interrupt   context.CancelFunc          // ends the running session
	resource    schema.GroupVersionResource // what that session watches
	kindGone    bool                        // the CRD was deleted; not handled yet
	refresh     bool                        // the CRD changed; not listed again yet
	secondList  *time.Timer                 // lists once more after a change of the CRD
	syncedSince time.Time                   // from when the current attempt is in sync
	subscribers countedSet[*listener]
	watchers    []*KindWatch // replaced, never modified
	events      uint64

	// Guarded by the hub's lock.
	interests
	cancel context.CancelFunc
}

func newActor(env *environment, k *kind, s Selection) *actor {
	now := time.Now()
	a := &actor{
		kind: k, selection: s, filter: parsed(s.labels), env: env,
		store:     newStore(env.OwnerLabel),
		retryNow:  make(chan struct{}, 1),
		state:     State{Phase: Syncing, Since: now},
		createdAt: now,
	}
	if s == All() { // an object also leaves other selections when its labels change
		a.store.keepIfDeletedWith = env.KeepIfDeletedWith
	}
	return a
}

func (a *actor) run(ctx context.Context) {
	defer a.store.close()
	defer func() {
		if a.current().Reason == Forbidden {
			a.env.forbiddenChanged(a.gvk, -1)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.secondList != nil {
			a.secondList.Stop()
		}
	}()
	var retry backoff
	var s *session
	for ctx.Err() == nil {
		var err error
		s, err = a.watch(ctx, s)
		switch {
		case errors.Is(err, errInterrupted):
			continue // the kind changed
		case errors.Is(err, errKindGone):
			retry.reset()
		case isStarting(err) && retry.delay == 0:
			retry.retrySoon() // the kind is about to be served
		default:
			retry.recordAttempt(a.takeSyncedDuration(time.Now()))
		}
		if err != nil && ctx.Err() == nil {
			a.env.Logger.V(1).Info("Watch ended", "kind", a.gvk, "selection", a.selection.class(), "reason", err.Error())
		}
		retry.pause(ctx, a.retryNow)
	}
}

// It ends an attempt that found the kind deleted.
var errKindGone = errors.New("kind deleted")

// It lists and watches until that fails, and returns the session that the next attempt continues.
func (a *actor) watch(ctx context.Context, s *session) (*session, error) {
	if a.takeKindGone() {
		a.markKindGone(&UnavailableError{Reason: WaitingForKind, Message: "the CustomResourceDefinition of " + a.gvk.Kind + " was deleted", Gone: true})
		return nil, errKindGone
	}
	s, err := a.nextSession(ctx, s)
	if err != nil {
		return s, err
	}
	err = s.run(ctx)
	if errors.Is(err, errInterrupted) {
		a.startGeneration()
	}
	return s, err
}

// It is the previous one, so the watch continues from its revision, or a new one if there is none or another resource
// serves the kind now.
func (a *actor) nextSession(ctx context.Context, s *session) (*session, error) {
	resource, err := a.env.Resolve(ctx, a.gvk)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if err != nil {
		why := classify(a.gvk, err)
		if why.Gone {
			a.markKindGone(why)
			return nil, err
		}
		notified := a.updateProgress(func(p *progress) { p.recordFailure(why, time.Now()) })
		if a.takeRefresh() && !notified {
			a.notify() // the kind changed and still fails; it may be served differently
		}
		return s, err
	}
	if s != nil && s.resource == resource {
		return s, nil
	}
	a.startGeneration()
	return newSession(a, resource), nil
}

// markKindGone empties the store and notifies the subscribers: the kind does not exist, so
// neither do its objects. The state changes before the deletions are routed: a subscriber
// that one of them wakes must not take an object that it cannot read for gone.
func (a *actor) markKindGone(why *UnavailableError) {
	gone := a.store.clear()
	a.updateProgress(func(p *progress) {
		*p = progress{}
		p.recordFailure(why, time.Now())
	})
	a.emit(gone, noWriter)
}

func (a *actor) startGeneration() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Generation++
}

// It notifies the subscribers, and returns true, if their view of the state changes.
func (a *actor) updateProgress(change func(*progress)) (notified bool) {
	now := time.Now()
	a.mu.Lock()
	wasGone := a.progress.gone()
	change(&a.progress)
	if a.syncedSince.IsZero() && a.progress.listed && a.progress.watching {
		a.syncedSince = now
	}
	before := a.state
	a.state.Phase, a.state.Reason, a.state.Message = a.progress.state(now)
	a.state.Remedy = ""
	if a.state.Phase == Unavailable {
		a.state.Remedy = a.progress.failure.Remedy
	}
	// A kind that is gone has no objects, which subscribers must learn even if the kind was
	// unavailable before.
	stateChanged := before.Phase != a.state.Phase || before.Reason != a.state.Reason || !wasGone && a.progress.gone()
	if stateChanged {
		a.state.Since = now
	}
	current := a.state
	a.mu.Unlock()
	// Once a permission is granted, users look for the next one that is missing. Other messages change with each attempt.
	refusalChanged := before.Reason == Forbidden && current.Reason == Forbidden && before.Message != current.Message
	switch {
	case before.Reason != Forbidden && current.Reason == Forbidden:
		a.env.forbiddenChanged(a.gvk, 1)
	case before.Reason == Forbidden && current.Reason != Forbidden:
		a.env.forbiddenChanged(a.gvk, -1)
	}
	if stateChanged || refusalChanged {
		a.env.Logger.V(1).Info("Watch state changed", "kind", a.gvk, "selection", a.selection.class(), // not the selection: a name may come from a Secret
			"phase", current.Phase, "reason", current.Reason, "message", current.Message)
		a.notify()
	}
	return stateChanged || refusalChanged
}

// It does not block.
func (a *actor) kindChanged(change KindChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pending := a.kindGone
	a.kindGone = a.kindGone || change == KindDeleted
	if change == KindUpdated {
		a.refresh = true
		a.scheduleSecondList()
	}
	watching := a.interrupt != nil
	if watching && change != KindAdded {
		a.interrupt()
	}
	if watching && !pending && (change != KindAdded || a.state.Phase == Synced) {
		return // the session ends by itself, or the kind has long been served
	}
	select {
	case a.retryNow <- struct{}{}:
	default: // a retry is requested already
	}
}

// secondListDelay is how long after a change of its definition a kind is listed once more:
// the API server takes a moment to read objects by the new definition, and does not say
// when it does.
const secondListDelay = 3 * time.Second

// The lock is held.
func (a *actor) scheduleSecondList() {
	if a.secondList != nil {
		a.secondList.Reset(secondListDelay)
		return
	}
	a.secondList = time.AfterFunc(secondListDelay, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.secondList = nil
		if a.interrupt != nil {
			a.interrupt()
		}
	})
}

// Both are reset for the next attempt.
func (a *actor) takeSyncedDuration(now time.Time) (synced time.Duration, wasSynced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := a.syncedSince
	a.syncedSince = time.Time{}
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

func (a *actor) current() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}
