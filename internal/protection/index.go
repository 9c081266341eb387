// Package protection keeps objects in use from being deleted: it reconciles Usages, and tells other controllers which
// objects are in use. See docs/design/0014-usages.md.
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

// Watches are the caches of an Index; *watch.Hub implements it.
type Watches interface {
	WatchKind(gvk schema.GroupVersionKind, onEvent func(object.Key, watch.Cause)) *watch.KindWatch
	GetCached(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	State(gvk schema.GroupVersionKind, s watch.Selection) watch.State
}

// CRDs looks up CustomResourceDefinitions by kind; *kube.Kinds implements it.
type CRDs interface {
	CRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool)
}

// Index knows which objects are in use, from one watch per kind of usage, and enqueues the
// subscribers of an object when its usages change. A lookup makes no request. While the kinds
// of usages do not exist, nothing is watched. It is safe for concurrent use.
type Index struct {
	watches Watches
	crds    CRDs
	// enqueue requests a reconcile of an object. It is called without the lock, and must not
	// block.
	enqueue func(object.Key)

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]bool
	uses    map[object.Key]usage.Usage
	// byUsed are the usages by the used object, and subscribers the objects that track it; tracked is the inverse of
	// subscribers.
	byUsed      map[object.Key]map[object.Key]struct{}
	subscribers map[object.Key]map[object.Key]struct{}
	tracked     map[object.Key][]object.Key
	// relations are how the used and the using object are related, by the UID of the usage, and
	// released are usages that are about to be removed and block nothing any more.
	relations map[types.UID]usage.Relation
	released  map[types.UID]bool
}

// NewIndex returns an index that watches no kind yet.
func NewIndex(watches Watches, crds CRDs, enqueue func(object.Key)) *Index {
	return &Index{
		watches: watches, crds: crds, enqueue: enqueue,
		watched: map[schema.GroupVersionKind]bool{}, uses: map[object.Key]usage.Usage{},
		byUsed: map[object.Key]map[object.Key]struct{}{}, subscribers: map[object.Key]map[object.Key]struct{}{}, tracked: map[object.Key][]object.Key{},
		relations: map[types.UID]usage.Relation{}, released: map[types.UID]bool{},
	}
}

// Watch starts to watch a kind of usages.
func (i *Index) Watch(kind schema.GroupVersionKind) {
	i.watches.WatchKind(kind, func(key object.Key, _ watch.Cause) {
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

// Refresh updates the index from the cached state of a usage.
func (i *Index) Refresh(kind schema.GroupVersionKind, key object.Key) {
	i.mu.Lock()
	before, was := i.uses[key]
	if was {
		i.remove(before)
	}
	// It is read under the lock, so of two refreshes at once the later one counts.
	o, exists := i.watches.GetCached(kind, key.Namespace, key.Name)
	var after usage.Usage
	if exists {
		if after, exists = usage.Read(o); exists {
			i.uses[key] = after
			addKey(i.byUsed, after.Of.Key(), key)
		}
	}
	if was && (!exists || after.UID != before.UID) {
		delete(i.relations, before.UID)
		delete(i.released, before.UID)
	}
	var keys []object.Key
	for _, u := range []usage.Usage{before, after} {
		keys = slices.AppendSeq(keys, maps.Keys(i.subscribers[u.Of.Key()]))
	}
	i.mu.Unlock()
	i.enqueueKeys(keys)
}

// remove requires the lock.
func (i *Index) remove(u usage.Usage) {
	delete(i.uses, u.Key)
	removeKey(i.byUsed, u.Of.Key(), u.Key)
}

func addKey(in map[object.Key]map[object.Key]struct{}, under object.Key, key object.Key) {
	if in[under] == nil {
		in[under] = map[object.Key]struct{}{}
	}
	in[under][key] = struct{}{}
}

func removeKey(in map[object.Key]map[object.Key]struct{}, under object.Key, key object.Key) {
	delete(in[under], key)
	if len(in[under]) == 0 {
		delete(in, under)
	}
}

func (i *Index) enqueueAll() {
	i.mu.Lock()
	keys := slices.Collect(maps.Keys(i.tracked))
	i.mu.Unlock()
	i.enqueueKeys(keys)
}

func (i *Index) enqueueKeys(keys []object.Key) {
	slices.SortFunc(keys, object.Key.Compare)
	for _, key := range slices.Compact(keys) {
		i.enqueue(key)
	}
}

// Subscribe returns the usages of objects, and why they cannot be read, if so. It enqueues the
// subscriber when that changes, until Forget. A call replaces the subscriber's earlier ones.
func (i *Index) Subscribe(subscriber object.Key, objects []object.Key) (map[object.Key][]usage.Usage, *plan.Unreadable) {
	unreadable := i.unavailable()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.untrack(subscriber)
	var out map[object.Key][]usage.Usage
	for _, key := range objects {
		addKey(i.subscribers, key, subscriber)
		i.tracked[subscriber] = append(i.tracked[subscriber], key)
		if found := i.usesOf(key); len(found) > 0 {
			if out == nil {
				out = map[object.Key][]usage.Usage{}
			}
			out[key] = found
		}
	}
	return out, unreadable
}

// Forget ends a subscription.
func (i *Index) Forget(subscriber object.Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.untrack(subscriber)
}

func (i *Index) untrack(subscriber object.Key) {
	for _, name := range i.tracked[subscriber] {
		removeKey(i.subscribers, name, subscriber)
	}
	delete(i.tracked, subscriber)
}

// UsesOf returns the usages of an object.
func (i *Index) UsesOf(key object.Key) ([]usage.Usage, *plan.Unreadable) {
	unreadable := i.unavailable()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.usesOf(key), unreadable
}

// usesOf is sorted. The caller holds the lock.
func (i *Index) usesOf(key object.Key) []usage.Usage {
	var out []usage.Usage
	for at := range i.byUsed[key] {
		u := i.uses[at]
		u.Relation, u.Released = i.relations[u.UID], i.released[u.UID]
		if u.Uses(key) {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(x, y usage.Usage) int { return x.Key.Compare(y.Key) })
	return out
}

// Circular reports whether a usage that is being deleted waits for itself through other
// usages.
func (i *Index) Circular(u usage.Usage) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return usage.IsCircular(u, func(r usage.Ref) []usage.Usage { return i.usesOf(r.Key()) })
}

// SetRelation records how the used and the using object of a usage are related.
func (i *Index) SetRelation(u usage.Usage, relation usage.Relation) {
	i.mu.Lock()
	var keys []object.Key
	if known, exists := i.uses[u.Key]; exists && known.UID == u.UID && i.relations[u.UID] != relation {
		i.relations[u.UID] = relation
		if relation == usage.Unrelated {
			delete(i.relations, u.UID)
		}
		keys = slices.Collect(maps.Keys(i.subscribers[u.Of.Key()]))
	}
	i.mu.Unlock()
	i.enqueueKeys(keys)
}

// SetReleased records that a usage is about to be removed, and reports whether it is the last
// one of the object. Of two that are removed at the same time, exactly one is the last.
func (i *Index) SetReleased(u usage.Usage, of object.Key) (last bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.released[u.UID] = true
	return !slices.ContainsFunc(i.usesOf(of), func(other usage.Usage) bool { return other.UID != u.UID && !other.Released })
}

// unavailable returns why usages cannot be read now; nil if they can. A kind that does not
// exist has none.
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
