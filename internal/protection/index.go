// Package protection keeps what is in use from being deleted: it serves Usages, and
// tells other controllers which objects they are about.
package protection

import (
	"maps"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// Watches are what an Index reads from; *watch.Hub is one.
type Watches interface {
	Serve(gvk schema.GroupVersionKind, onEvent func(object.Key, watch.Cause)) *watch.Serving
	Served(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	State(gvk schema.GroupVersionKind, s watch.Selection) watch.State
}

// CRDs tells which kinds have a CustomResourceDefinition; *kube.Kinds does.
type CRDs interface {
	CRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool)
}

// Index knows which objects are in use, from one watch of each kind of usage, and wakes
// those who have asked about an object when that changes. Asking costs no request, and
// while the kinds don't exist there is nothing to watch. It is safe for concurrent use.
type Index struct {
	watches Watches
	crds    CRDs
	// enqueue asks for a reconcile of an object. It is called without a lock held, and must
	// not block.
	enqueue func(object.Key)

	mu sync.Mutex
	// watched are the kinds that are watched.
	watched map[schema.GroupVersionKind]bool
	uses    map[object.Key]usage.Use
	// byUsed are the usages by what is used, askers those who have asked about it; asked
	// is the same the other way round.
	byUsed map[usedName]map[object.Key]struct{}
	askers map[usedName]map[object.Key]struct{}
	asked  map[object.Key][]usedName
	// kin is what was found out about usages, and leaving are those that block nothing any
	// more, though they are still there.
	kin     map[types.UID]usage.Kin
	leaving map[types.UID]bool
}

// usedName is what usages are indexed by. A usage needn't know whether a kind has
// namespaces, so these are compared afterwards.
type usedName struct{ group, kind, name string }

func usedNameOf(k object.Key) usedName { return usedName{k.Group, k.Kind, k.Name} }

func usedNameOfRef(r usage.Ref) usedName { return usedName{r.Kind.Group, r.Kind.Kind, r.Name} }

// NewIndex returns an index that watches no kind yet.
func NewIndex(watches Watches, crds CRDs, enqueue func(object.Key)) *Index {
	return &Index{
		watches: watches, crds: crds, enqueue: enqueue,
		watched: map[schema.GroupVersionKind]bool{}, uses: map[object.Key]usage.Use{},
		byUsed: map[usedName]map[object.Key]struct{}{}, askers: map[usedName]map[object.Key]struct{}{}, asked: map[object.Key][]usedName{},
		kin: map[types.UID]usage.Kin{}, leaving: map[types.UID]bool{},
	}
}

// Watch begins to watch a kind of usages.
func (i *Index) Watch(kind schema.GroupVersionKind) {
	i.watches.Serve(kind, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			i.enqueueAll()
			return
		}
		i.Refresh(kind, key)
	})
	i.mu.Lock()
	i.watched[kind] = true
	i.mu.Unlock()
	i.enqueueAll()
}

// Refresh reads a usage again.
func (i *Index) Refresh(kind schema.GroupVersionKind, key object.Key) {
	i.mu.Lock()
	before, was := i.uses[key]
	if was {
		i.remove(before)
	}
	// It is read under the lock, so that of two refreshes at once the later one counts.
	o, there := i.watches.Served(kind, key.Namespace, key.Name)
	var after usage.Use
	if there {
		if after, there = usage.Read(o); there {
			i.uses[key] = after
			addTo(i.byUsed, usedNameOfRef(after.Of.Ref), key)
		}
	}
	if was && (!there || after.UID != before.UID) {
		delete(i.kin, before.UID)
		delete(i.leaving, before.UID)
	}
	var keys []object.Key
	for _, u := range []usage.Use{before, after} {
		keys = slices.AppendSeq(keys, maps.Keys(i.askers[usedNameOfRef(u.Of.Ref)]))
	}
	i.mu.Unlock()
	i.enqueueKeys(keys)
}

// remove takes a usage out of the index. The lock is held.
func (i *Index) remove(u usage.Use) {
	delete(i.uses, u.Usage)
	removeFrom(i.byUsed, usedNameOfRef(u.Of.Ref), u.Usage)
}

func addTo(in map[usedName]map[object.Key]struct{}, under usedName, key object.Key) {
	if in[under] == nil {
		in[under] = map[object.Key]struct{}{}
	}
	in[under][key] = struct{}{}
}

func removeFrom(in map[usedName]map[object.Key]struct{}, under usedName, key object.Key) {
	delete(in[under], key)
	if len(in[under]) == 0 {
		delete(in, under)
	}
}

func (i *Index) enqueueAll() {
	i.mu.Lock()
	keys := slices.Collect(maps.Keys(i.asked))
	i.mu.Unlock()
	i.enqueueKeys(keys)
}

func (i *Index) enqueueKeys(keys []object.Key) {
	slices.SortFunc(keys, object.Key.Compare)
	for _, key := range slices.Compact(keys) {
		i.enqueue(key)
	}
}

// Ask returns the usages of objects, in place of what was asked before, and why they are
// not known, if they aren't. The asker is enqueued when that changes, until it is
// forgotten.
func (i *Index) Ask(asker object.Key, about []object.Key) (map[object.Key][]usage.Use, *plan.Unreadable) {
	blind := i.unavailable()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forget(asker)
	var out map[object.Key][]usage.Use
	for _, key := range about {
		at := usedNameOf(key)
		addTo(i.askers, at, asker)
		i.asked[asker] = append(i.asked[asker], at)
		if found := i.of(key); len(found) > 0 {
			if out == nil {
				out = map[object.Key][]usage.Use{}
			}
			out[key] = found
		}
	}
	return out, blind
}

// Forget ends the interest of somebody who has asked.
func (i *Index) Forget(asker object.Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forget(asker)
}

func (i *Index) forget(asker object.Key) {
	for _, at := range i.asked[asker] {
		removeFrom(i.askers, at, asker)
	}
	delete(i.asked, asker)
}

// Of returns the usages of an object.
func (i *Index) Of(key object.Key) ([]usage.Use, *plan.Unreadable) {
	blind := i.unavailable()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of(key), blind
}

func (i *Index) of(key object.Key) []usage.Use {
	return i.matching(usedNameOf(key), func(u usage.Use) bool { return u.Of.Is(key) })
}

// matching are the usages of that name that pass, sorted. The lock is held.
func (i *Index) matching(at usedName, pass func(usage.Use) bool) []usage.Use {
	var out []usage.Use
	for key := range i.byUsed[at] {
		u := i.uses[key]
		u.Kin, u.Leaving = i.kin[u.UID], i.leaving[u.UID]
		if pass(u) {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(x, y usage.Use) int { return x.Usage.Compare(y.Usage) })
	return out
}

// Circular says whether a usage that is being deleted waits for itself.
func (i *Index) Circular(u usage.Use) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return usage.Circular(u, func(r usage.Ref) []usage.Use {
		return i.matching(usedNameOfRef(r), func(other usage.Use) bool {
			return other.Of.Namespace == r.Namespace || other.Of.Namespace == "" || r.Namespace == ""
		})
	})
}

// SetKin records how the two that a usage is about belong together.
func (i *Index) SetKin(u usage.Use, kin usage.Kin) {
	i.mu.Lock()
	var keys []object.Key
	if known, there := i.uses[u.Usage]; there && known.UID == u.UID && i.kin[u.UID] != kin {
		i.kin[u.UID] = kin
		if kin == usage.Apart {
			delete(i.kin, u.UID)
		}
		keys = slices.Collect(maps.Keys(i.askers[usedNameOfRef(u.Of.Ref)]))
	}
	i.mu.Unlock()
	i.enqueueKeys(keys)
}

// SetLeaving records that a usage is about to go, and says whether it is the last of an
// object. Of two that go at the same time one is.
func (i *Index) SetLeaving(u usage.Use, of object.Key) (last bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leaving[u.UID] = true
	others := i.matching(usedNameOf(of), func(other usage.Use) bool {
		return other.UID != u.UID && !i.leaving[other.UID] && other.Of.Is(of)
	})
	return len(others) == 0
}

// unavailable is why usages are not known now; nil when they are. Of a kind that doesn't
// exist there are none.
func (i *Index) unavailable() *plan.Unreadable {
	for _, kind := range usage.Kinds {
		if _, exists := i.crds.CRD(kind.GroupKind()); !exists {
			continue
		}
		i.mu.Lock()
		watched := i.watched[kind]
		i.mu.Unlock()
		state := i.watches.State(kind, watch.All())
		problem := plan.Problem{Reason: plan.Unavailable, Message: state.Message}
		switch {
		case watched && state.Phase == watch.Synced:
			continue
		case !watched, state.Phase == watch.Syncing, state.Phase == watch.Unwatched, state.Reason == watch.WaitingForKind:
			problem = plan.Problem{Reason: plan.Syncing, Message: "reading " + kind.Kind + " objects"}
		case state.Reason == watch.Forbidden:
			problem.Reason = plan.Forbidden
		}
		return &plan.Unreadable{Problem: problem, Since: state.Since}
	}
	return nil
}
