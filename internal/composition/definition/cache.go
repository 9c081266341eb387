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

// CompositionCache has the compositions and their revisions by the kind that they are for, as the
// watch tells of them, so that a change of one concerns one definition. It is safe for
// concurrent use.
type CompositionCache struct {
	hub *watch.Hub
	// changed is told of a kind that something has changed for, and of the empty kind when
	// it is the library as a whole.
	changed func(schema.GroupKind)

	// mu is held while an object is looked up and shelved, so that of two events of one
	// object the later look counts.
	mu           sync.Mutex
	compositions index[*v1.Composition]
	revisions    index[*v1.CompositionRevision]
}

// Kinds of what is in the library.
var (
	compositionKind = v1.GroupVersion.WithKind(v1.CompositionKind)
	revisionKind    = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)
)

// NewCompositionCache returns a library that follows the hub.
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

// decode reads an object; one that can't be read is as good as none.
func decode[T any](o *unstructured.Unstructured) (*T, bool) {
	out := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out)
	return out, err == nil
}

// digestIf tells contents apart; it is "" for what could not be read.
func digestIf(ok bool, content ...any) string {
	if !ok {
		return ""
	}
	return object.Digest(content)
}

// conditionsOf is what of a revision's conditions counts: not when that was found.
func conditionsOf(r *v1.CompositionRevision) []string {
	var out []string
	for _, c := range r.Status.Conditions {
		out = append(out, c.Type, string(c.Status), c.Reason)
	}
	return out
}

func serveKind[T any](l *CompositionCache, s *index[T], gvk schema.GroupVersionKind) {
	l.hub.Serve(gvk, func(key object.Key, _ watch.Cause) { update(l, s, gvk, key) })
	update(l, s, gvk, object.Key{}) // it may have been watched before, and is in sync
}

// update takes note of an object, or of all where the key has no name: what the state of the
// watch is may have changed, and so may everything.
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
	o, _ := l.hub.Served(gvk, key.Namespace, key.Name)
	concerned := s.put(key.Name, o)
	l.mu.Unlock()
	for _, gk := range concerned {
		l.changed(gk)
	}
}

// compositionsFor returns what there is for a kind, and what tells that apart from what there was. It is
// not complete while not everything has been read yet.
func (l *CompositionCache) compositionsFor(gk schema.GroupKind) (compositions []*v1.Composition, revisions []*v1.CompositionRevision, mark string, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.compositions.complete || !l.revisions.complete {
		return nil, nil, "", false
	}
	compositions, first := l.compositions.of(gk)
	revisions, second := l.revisions.of(gk)
	return compositions, revisions, object.Digest([]any{first, second}), true
}

// index holds objects by name and by the kind that they are for.
type index[T any] struct {
	// read decodes an object; the mark tells its content apart, and is "" where it can't be
	// read.
	read     func(*unstructured.Unstructured) (decoded T, kind schema.GroupKind, mark string)
	byName   map[string]indexed[T]
	byKind   map[schema.GroupKind]map[string]struct{}
	complete bool
}

type indexed[T any] struct {
	object T
	kind   schema.GroupKind
	mark   string
}

// put shelves an object, nil for one that is gone, and returns the kinds that this changes
// something for.
func (s *index[T]) put(name string, o *unstructured.Unstructured) (concerned []schema.GroupKind) {
	was, had := s.byName[name]
	is := indexed[T]{}
	if o != nil {
		is.object, is.kind, is.mark = s.read(o)
	}
	if had && was.mark == is.mark && was.kind == is.kind {
		return nil
	}
	if had {
		delete(s.byName, name)
		if delete(s.byKind[was.kind], name); len(s.byKind[was.kind]) == 0 {
			delete(s.byKind, was.kind)
		}
		concerned = append(concerned, was.kind)
	}
	if is.mark == "" {
		return concerned
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
		concerned = append(concerned, is.kind)
	}
	return concerned
}

// replace shelves what there is, and nothing else.
func (s *index[T]) replace(all []*unstructured.Unstructured) {
	there := map[string]struct{}{}
	for _, o := range all {
		there[o.GetName()] = struct{}{}
		s.put(o.GetName(), o)
	}
	for name := range s.byName {
		if _, ok := there[name]; !ok {
			s.put(name, nil)
		}
	}
	s.complete = true
}

// of lists, by name, what there is for a kind, with the marks.
func (s *index[T]) of(gk schema.GroupKind) (objects []T, marks []string) {
	for _, name := range slices.Sorted(maps.Keys(s.byKind[gk])) {
		v := s.byName[name]
		objects, marks = append(objects, v.object), append(marks, v.mark)
	}
	return objects, marks
}
