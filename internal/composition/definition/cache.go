package definition

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// CompositionCache indexes compositions and their revisions by composite kind, from watch events, so a change of one
// only enqueues one definition. It is safe for concurrent use.
type CompositionCache struct {
	hub *watch.Hub
	// changed is called with the composite kind of a change, or with the empty kind if the
	// whole cache changed.
	changed func(schema.GroupKind)

	// mu is held from the read of an object to its update here, so of two concurrent events of one object the newer
	// read wins.
	mu           sync.Mutex
	compositions index[*v1.Composition]
	revisions    index[*v1.CompositionRevision]
}

// The kinds in the cache.
var (
	compositionKind = v1.GroupVersion.WithKind(v1.CompositionKind)
	revisionKind    = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)
)

// NewCompositionCache returns a cache that follows the hub.
func NewCompositionCache(hub *watch.Hub, changed func(schema.GroupKind)) *CompositionCache {
	l := &CompositionCache{
		hub: hub, changed: changed,
		compositions: index[*v1.Composition]{read: func(o *unstructured.Unstructured) (*v1.Composition, schema.GroupKind, string) {
			c, ok := decode[v1.Composition](o)
			return c, c.Spec.CompositeTypeRef.GroupVersionKind().GroupKind(), digestIf(ok, c.UID, c.Labels, c.Annotations, c.Spec)
		}},
		revisions: index[*v1.CompositionRevision]{read: func(o *unstructured.Unstructured) (*v1.CompositionRevision, schema.GroupKind, string) {
			c, ok := decode[v1.CompositionRevision](o)
			return c, c.Spec.CompositeTypeRef.GroupVersionKind().GroupKind(), digestIf(ok, c.UID, c.Labels, c.Annotations, c.Spec, conditionsOf(c))
		}},
	}
	serveKind(l, &l.compositions, compositionKind)
	serveKind(l, &l.revisions, revisionKind)
	return l
}

// decode returns false for an invalid object.
func decode[T any](o *unstructured.Unstructured) (*T, bool) {
	out := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out)
	return out, err == nil
}

// digestIf returns "" for an object that could not be decoded.
func digestIf(ok bool, content ...any) string {
	if !ok {
		return ""
	}
	return object.Digest(content)
}

func conditionsOf(r *v1.CompositionRevision) []string {
	var out []string
	for _, c := range r.Status.Conditions {
		out = append(out, c.Type, string(c.Status), c.Reason)
	}
	return out
}

func serveKind[T any](l *CompositionCache, s *index[T], gvk schema.GroupVersionKind) {
	l.hub.WatchKind(gvk, func(key object.Key, _ watch.Cause) { update(l, s, gvk, key) })
	update(l, s, gvk, object.Key{}) // the kind may be watched and synced already
}

// update reads one object from the hub, or all if the key has no name: then the state of the
// watch has changed.
func update[T any](l *CompositionCache, s *index[T], gvk schema.GroupVersionKind, key object.Key) {
	if key.Name == "" {
		l.mu.Lock()
		synced := l.hub.State(gvk, watch.All()).Phase == watch.Synced
		if synced {
			s.replace(l.hub.Select(gvk, "", labels.Everything()))
		}
		l.mu.Unlock()
		if synced {
			l.changed(schema.GroupKind{})
		}
		return
	}
	l.mu.Lock()
	o, _ := l.hub.GetCached(gvk, key.Namespace, key.Name)
	affected := s.put(key.Name, o)
	l.mu.Unlock()
	for _, gk := range affected {
		l.changed(gk)
	}
}

// compositionsFor returns the compositions and revisions for a kind, with a digest. It is not
// complete until both kinds are synced.
func (l *CompositionCache) compositionsFor(gk schema.GroupKind) (compositions []*v1.Composition, revisions []*v1.CompositionRevision, digest string,
	complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.compositions.complete || !l.revisions.complete {
		return nil, nil, "", false
	}
	compositions, first := l.compositions.of(gk)
	revisions, second := l.revisions.of(gk)
	return compositions, revisions, object.Digest([]any{first, second}), true
}

// index holds objects by name and by composite kind.
type index[T any] struct {
	// read decodes an object; digest is the digest of its content, or "" if it is invalid.
	read     func(*unstructured.Unstructured) (decoded T, kind schema.GroupKind, digest string)
	byName   map[string]indexed[T]
	byKind   map[schema.GroupKind]map[string]struct{}
	complete bool
}

type indexed[T any] struct {
	object T
	kind   schema.GroupKind
	digest string
}

// put removes the object if o is nil, and returns the affected composite kinds.
func (s *index[T]) put(name string, o *unstructured.Unstructured) (affected []schema.GroupKind) {
	was, had := s.byName[name]
	is := indexed[T]{}
	if o != nil {
		is.object, is.kind, is.digest = s.read(o)
	}
	if had && was.digest == is.digest && was.kind == is.kind {
		return nil
	}
	if had {
		delete(s.byName, name)
		if delete(s.byKind[was.kind], name); len(s.byKind[was.kind]) == 0 {
			delete(s.byKind, was.kind)
		}
		affected = append(affected, was.kind)
	}
	if is.digest == "" {
		return affected
	}
	if s.byName == nil {
		s.byName, s.byKind = map[string]indexed[T]{}, map[schema.GroupKind]map[string]struct{}{}
	}
	if s.byKind[is.kind] == nil {
		s.byKind[is.kind] = map[string]struct{}{}
	}
	s.byName[name] = is
	s.byKind[is.kind][name] = struct{}{}
	if !had || was.kind != is.kind {
		affected = append(affected, is.kind)
	}
	return affected
}

func (s *index[T]) replace(all []*unstructured.Unstructured) {
	existing := map[string]struct{}{}
	for _, o := range all {
		existing[o.GetName()] = struct{}{}
		s.put(o.GetName(), o)
	}
	for name := range s.byName {
		if _, ok := existing[name]; !ok {
			s.put(name, nil)
		}
	}
	s.complete = true
}

// of lists objects sorted by name.
func (s *index[T]) of(gk schema.GroupKind) (objects []T, digests []string) {
	for _, name := range slices.Sorted(maps.Keys(s.byKind[gk])) {
		v := s.byName[name]
		objects, digests = append(objects, v.object), append(digests, v.digest)
	}
	return objects, digests
}
