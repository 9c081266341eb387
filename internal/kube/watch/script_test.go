package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/internal/object"
)

const partOf = "applyset.kubernetes.io/part-of"

var (
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	vpc       = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Vpc"}
)

// script is a scripted source: it holds what the test put there
// and fails when the test says so.
type script struct {
	mu       sync.Mutex
	objects  map[objectName]*unstructured.Unstructured
	revision uint64
	watches  map[chan apiwatch.Event]struct{}
	silent   map[chan apiwatch.Event]struct{} // open watches that get no events
	failure  func(verb string) error
	lists    int
	hang     bool // requests neither answer nor fail
	// cutInitial says that a watch-list does not get further than its first object: it ends, or stays open.
	cutInitial func() (cut, ends bool)
	// requests are those that were accepted.
	requests []string
}

func newScript(objects ...*unstructured.Unstructured) *script {
	s := &script{revision: 100, objects: map[objectName]*unstructured.Unstructured{}, watches: map[chan apiwatch.Event]struct{}{}, silent: map[chan apiwatch.Event]struct{}{}}
	for _, o := range objects {
		s.objects[nameOf(o)] = o
	}
	return s
}

func (s *script) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refuse(ctx, "list"); err != nil {
		return nil, err
	}
	s.lists++
	s.requests = append(s.requests, "list")
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion(fmt.Sprint(s.revision))
	for _, o := range s.objects {
		list.Items = append(list.Items, *o)
	}
	return list, nil
}

func (s *script) Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refuse(ctx, "watch"); err != nil {
		return nil, err
	}
	events := make(chan apiwatch.Event, 1000+len(s.objects))
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		s.lists++
		s.requests = append(s.requests, "watch-list")
		for _, o := range s.objects {
			events <- apiwatch.Event{Type: apiwatch.Added, Object: o.DeepCopy()}
			if cut, ends := s.cutsInitial(); ends {
				close(events)
				return apiwatch.NewProxyWatcher(events), nil
			} else if cut {
				return s.open(ctx, events, s.silent), nil
			}
		}
		end := &unstructured.Unstructured{Object: map[string]any{}}
		end.SetResourceVersion(fmt.Sprint(s.revision))
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		events <- apiwatch.Event{Type: apiwatch.Bookmark, Object: end}
	}
	s.requests = append(s.requests, "watch")
	return s.open(ctx, events, s.watches), nil
}

// open opens a watch that ends with the context, as one of the given watches. The lock is held.
func (s *script) open(ctx context.Context, events chan apiwatch.Event, as map[chan apiwatch.Event]struct{}) apiwatch.Interface {
	as[events] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, open := range []map[chan apiwatch.Event]struct{}{s.watches, s.silent} {
			if _, ok := open[events]; ok {
				delete(open, events)
				close(events)
			}
		}
	})
	return apiwatch.NewProxyWatcher(events)
}

// silence keeps the open watches open, and delivers nothing more to them.
func (s *script) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		s.silent[w] = struct{}{}
	}
	clear(s.watches)
}

func (s *script) cutsInitial() (cut, ends bool) {
	if s.cutInitial == nil {
		return false, false
	}
	return s.cutInitial()
}

// refuse fails the request if the script says so. The lock is held.
func (s *script) refuse(ctx context.Context, verb string) error {
	if s.hang {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return ctx.Err()
	}
	if s.failure != nil {
		return s.failure(verb)
	}
	return nil
}

// fail makes every request from now on fail, and ends the watches.
func (s *script) fail(failure func(verb string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = failure
	for w := range s.watches {
		close(w)
	}
	clear(s.watches)
}

// put changes an object as a person would, and returns it as it is then.
func (s *script) put(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = s.write(o)
	s.deliver(apiwatch.Modified, o)
	return o
}

// write changes an object without the watch delivering it yet.
func (s *script) write(o *unstructured.Unstructured) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	o = o.DeepCopy()
	o.SetResourceVersion(fmt.Sprint(s.revision))
	s.objects[nameOf(o)] = o
	return o
}

func (s *script) remove(namespace, name string) {
	s.mu.Lock()
	o := s.objects[objectName{namespace, name}].DeepCopy()
	delete(s.objects, objectName{namespace, name})
	s.revision++
	o.SetResourceVersion(fmt.Sprint(s.revision))
	s.mu.Unlock()
	s.deliver(apiwatch.Deleted, o)
}

func (s *script) deliver(event apiwatch.EventType, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w <- apiwatch.Event{Type: event, Object: o.DeepCopy()}
	}
}

// recorder collects wake-ups.
type recorder struct {
	mu     sync.Mutex
	causes []string
	last   Cause
}

func (in *recorder) enqueue(s Subscriber, c Cause) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.causes = append(in.causes, fmt.Sprintf("%s: %s %s", s.Name, c.Change, c.Object))
	in.last = c
}

// take returns the wake-ups since the last time, in order of text.
func (in *recorder) take() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := slices.Sorted(slices.Values(in.causes))
	in.causes = nil
	return out
}

// scriptedHub is a hub with scripted sources.
type scriptedHub struct {
	*Hub
	recorder recorder
	mu       sync.Mutex
	scripts  map[schema.GroupVersionKind]*script
}

// withScriptedHub runs a test in a bubble of virtual time, with a running hub.
func withScriptedHub(t *testing.T, scripts map[schema.GroupVersionKind]*script, test func(t *testing.T, s *scriptedHub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedHub(scripts)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		test(t, s)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func newScriptedHub(scripts map[schema.GroupVersionKind]*script) *scriptedHub {
	s := &scriptedHub{scripts: maps.Clone(scripts)}
	s.Hub = New(Config{
		ManagedLabel: partOf, FieldManager: "kro.run/applyset",
		Resolve: func(_ context.Context, gvk schema.GroupVersionKind) (Resource, error) {
			if s.script(gvk) == nil {
				return Resource{}, fmt.Errorf("resolving: %w", &UnavailableError{Reason: WaitingForKind, Message: "no " + gvk.Kind, Gone: true})
			}
			return Resource{GVR: gvk.GroupVersion().WithResource(gvk.Kind), Namespaced: true}, nil
		},
		Enqueue: s.recorder.enqueue,
	})
	s.env.open = func(r Resource, _ Selection) source {
		return s.script(r.GVR.GroupVersion().WithKind(r.GVR.Resource))
	}
	return s
}

func (s *scriptedHub) script(gvk schema.GroupVersionKind) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scripts[gvk]
}

func (s *scriptedHub) install(gvk schema.GroupVersionKind, sc *script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[gvk] = sc
}

// commit wants the targets of an instance and commits.
func (s *scriptedHub) commit(sub string, targets ...Target) {
	l := s.BeginWithinQuota(subscriberOf(sub))
	for _, t := range targets {
		l.Watch(t)
	}
	l.Commit()
}

func subscriberOf(name string) Subscriber {
	return Subscriber{object.Key{Group: "kro.run", Kind: "Vpc", Namespace: "default", Name: name}}
}

// made returns an object: made(configMap, "ns/name", 7, "app", "db").
func made(gvk schema.GroupVersionKind, name string, revision int, labels ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(gvk)
	namespace, short, _ := strings.Cut(name, "/")
	o.SetNamespace(namespace)
	o.SetName(short)
	o.SetUID(types.UID("uid of " + name))
	o.SetResourceVersion(strconv.Itoa(revision))
	set := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		set[labels[i]] = labels[i+1]
	}
	if len(set) > 0 {
		o.SetLabels(set)
	}
	return o
}

// pass lets virtual time pass, and what is due then happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Get returns an object from whichever watch holds it, in its newest revision.
// That it isn't found means that it doesn't exist only while the state of the
// target that should hold it is Synced.
func (h *Hub) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool) {
	var newest *unstructured.Unstructured
	for _, a := range h.actorsHolding(gvk, One(namespace, name)) {
		o, ok := a.store.get(objectName{namespace, name})
		if ok && (newest == nil || revisionOf(o) > revisionOf(newest)) {
			newest = o
		}
	}
	return newest, newest != nil
}

// Owned returns the objects with this value of the owner label, sorted by
// namespace and name.
func (h *Hub) Owned(gvk schema.GroupVersionKind, owner string) []*unstructured.Unstructured {
	if a := h.actorFor(gvk, Managed()); a != nil {
		objects, _ := a.store.ownedBy(owner)
		return objects
	}
	return nil
}
