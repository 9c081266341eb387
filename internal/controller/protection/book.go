// Package protection keeps what is in use from being deleted: it serves Usages, and
// tells other controllers which objects they are about.
package protection

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/usage"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Book knows which objects are in use, from one watch of each kind of usage, and wakes
// those who have asked about an object when that changes. Asking costs no request, and
// while the kinds don't exist there is nothing to watch. It is safe for concurrent use.
type Book struct {
	Hub   *watch.Hub
	Kinds *cluster.Kinds
	// Wake asks for a pass over an object. It is called without a lock held, and must
	// not block.
	Wake func(object.Key)

	mu sync.Mutex
	// open are the kinds that are watched.
	open map[schema.GroupVersionKind]bool
	uses map[object.Key]usage.Use
	// ofs are the usages of what has a place, askers those who have asked about it; asked
	// is the same the other way round.
	ofs    map[place]map[object.Key]struct{}
	askers map[place]map[object.Key]struct{}
	asked  map[object.Key][]place
	// kin is what was found out about usages, and leaving are those that hold nothing any
	// more, though they are still there.
	kin     map[types.UID]usage.Kin
	leaving map[types.UID]bool
}

// place is what usages are filed under. A usage needn't know whether a kind has
// namespaces, so these are looked at afterwards.
type place struct{ group, kind, name string }

func placeOf(k object.Key) place { return place{k.Group, k.Kind, k.Name} }

func placeOfRef(r usage.Ref) place { return place{r.Kind.Group, r.Kind.Kind, r.Name} }

// NewBook returns a book that knows of no kind yet.
func NewBook(hub *watch.Hub, kinds *cluster.Kinds, wake func(object.Key)) *Book {
	return &Book{
		Hub: hub, Kinds: kinds, Wake: wake,
		open: map[schema.GroupVersionKind]bool{}, uses: map[object.Key]usage.Use{},
		ofs: map[place]map[object.Key]struct{}{}, askers: map[place]map[object.Key]struct{}{}, asked: map[object.Key][]place{},
		kin: map[types.UID]usage.Kin{}, leaving: map[types.UID]bool{},
	}
}

// Open begins to watch a kind of usages.
func (b *Book) Open(kind schema.GroupVersionKind) {
	b.Hub.Serve(kind, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			b.wakeAll()
			return
		}
		b.look(kind, key)
	})
	b.mu.Lock()
	b.open[kind] = true
	b.mu.Unlock()
	b.wakeAll()
}

// look takes note of a usage as it is now.
func (b *Book) look(kind schema.GroupVersionKind, key object.Key) {
	b.mu.Lock()
	before, was := b.uses[key]
	if was {
		b.strike(before)
	}
	// It is read under the lock, so that of two looks at once the later one counts.
	o, there := b.Hub.Served(kind, key.Namespace, key.Name)
	var after usage.Use
	if there {
		if after, there = usage.Read(o); there {
			b.uses[key] = after
			file(b.ofs, placeOfRef(after.Of.Ref), key)
		}
	}
	if was && (!there || after.UID != before.UID) {
		delete(b.kin, before.UID)
		delete(b.leaving, before.UID)
	}
	var woken []object.Key
	for _, u := range []usage.Use{before, after} {
		woken = slices.AppendSeq(woken, maps.Keys(b.askers[placeOfRef(u.Of.Ref)]))
	}
	b.mu.Unlock()
	b.wake(woken)
}

// strike takes a usage out of the book. The lock is held.
func (b *Book) strike(u usage.Use) {
	delete(b.uses, u.Usage)
	unfile(b.ofs, placeOfRef(u.Of.Ref), u.Usage)
}

func file(in map[place]map[object.Key]struct{}, under place, key object.Key) {
	if in[under] == nil {
		in[under] = map[object.Key]struct{}{}
	}
	in[under][key] = struct{}{}
}

func unfile(in map[place]map[object.Key]struct{}, under place, key object.Key) {
	delete(in[under], key)
	if len(in[under]) == 0 {
		delete(in, under)
	}
}

func (b *Book) wakeAll() {
	b.mu.Lock()
	woken := slices.Collect(maps.Keys(b.asked))
	b.mu.Unlock()
	b.wake(woken)
}

func (b *Book) wake(keys []object.Key) {
	slices.SortFunc(keys, object.Key.Compare)
	for _, key := range slices.Compact(keys) {
		b.Wake(key)
	}
}

// Ask returns the usages of objects, in place of what was asked before, and why they
// can't be told, if they can't. The asker is woken when that changes, until it is
// forgotten.
func (b *Book) Ask(asker object.Key, about []object.Key) (map[object.Key][]usage.Use, *plan.Blind) {
	blind := b.blind()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(asker)
	var out map[object.Key][]usage.Use
	for _, key := range about {
		at := placeOf(key)
		file(b.askers, at, asker)
		b.asked[asker] = append(b.asked[asker], at)
		if found := b.of(key); len(found) > 0 {
			if out == nil {
				out = map[object.Key][]usage.Use{}
			}
			out[key] = found
		}
	}
	return out, blind
}

// Forget ends the interest of somebody who has asked.
func (b *Book) Forget(asker object.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(asker)
}

func (b *Book) forget(asker object.Key) {
	for _, at := range b.asked[asker] {
		unfile(b.askers, at, asker)
	}
	delete(b.asked, asker)
}

// Of returns the usages of an object.
func (b *Book) Of(key object.Key) ([]usage.Use, *plan.Blind) {
	blind := b.blind()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(key), blind
}

func (b *Book) of(key object.Key) []usage.Use {
	return b.filed(placeOf(key), func(u usage.Use) bool { return u.Of.Is(key) })
}

// filed are the usages under a place that pass, in order. The lock is held.
func (b *Book) filed(at place, pass func(usage.Use) bool) []usage.Use {
	var out []usage.Use
	for key := range b.ofs[at] {
		u := b.uses[key]
		u.Kin, u.Leaving = b.kin[u.UID], b.leaving[u.UID]
		if pass(u) {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(x, y usage.Use) int { return x.Usage.Compare(y.Usage) })
	return out
}

// Circular says whether a usage that is being deleted waits for itself.
func (b *Book) Circular(u usage.Use) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return usage.Circular(u, func(r usage.Ref) []usage.Use {
		return b.filed(placeOfRef(r), func(other usage.Use) bool {
			return other.Of.Namespace == r.Namespace || other.Of.Namespace == "" || r.Namespace == ""
		})
	})
}

// Note takes note of how the two that a usage is about belong together.
func (b *Book) Note(u usage.Use, kin usage.Kin) {
	b.mu.Lock()
	var woken []object.Key
	if known, there := b.uses[u.Usage]; there && known.UID == u.UID && b.kin[u.UID] != kin {
		b.kin[u.UID] = kin
		if kin == usage.Apart {
			delete(b.kin, u.UID)
		}
		woken = slices.Collect(maps.Keys(b.askers[placeOfRef(u.Of.Ref)]))
	}
	b.mu.Unlock()
	b.wake(woken)
}

// Leave notes that a usage is about to go, and says whether it is the last of an
// object. Of two that go at the same time one is.
func (b *Book) Leave(u usage.Use, of object.Key) (last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaving[u.UID] = true
	others := b.filed(placeOf(of), func(other usage.Use) bool {
		return other.UID != u.UID && !b.leaving[other.UID] && other.Of.Is(of)
	})
	return len(others) == 0
}

// blind is why usages can't be told now; nil when they can. Of a kind that doesn't exist
// there are none.
func (b *Book) blind() *plan.Blind {
	for _, kind := range usage.Kinds {
		if _, exists := b.Kinds.CRD(kind.GroupKind()); !exists {
			continue
		}
		b.mu.Lock()
		open := b.open[kind]
		b.mu.Unlock()
		state := b.Hub.State(kind, watch.All())
		problem := plan.Problem{Reason: plan.Unavailable, Message: state.Message}
		switch {
		case open && state.Phase == watch.Synced:
			continue
		case !open, state.Phase == watch.Syncing, state.Phase == watch.Unwatched, state.Reason == watch.WaitingForKind:
			problem = plan.Problem{Reason: plan.Syncing, Message: "reading " + kind.Kind + " objects"}
		case state.Reason == watch.Forbidden:
			problem.Reason = plan.Forbidden
		}
		return &plan.Blind{Problem: problem, Since: state.Since}
	}
	return nil
}
