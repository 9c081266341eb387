package kube

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/listwatch"
)

// CRDs watches the CustomResourceDefinitions of a cluster. It is a watch of its own, apart from the hub's: what is
// known of kinds decides whether objects are gone for good, so nothing else is allowed to run before it is synced. It
// is safe for concurrent use.
type CRDs struct {
	reflector *cache.Reflector
	keep      func(*apiextensionsv1.CustomResourceDefinition) *crd.Stored
	changed   func(old, current *crd.Stored)
	log       logr.Logger
	api       apiextensionsclient.CustomResourceDefinitionInterface
	bounds    listwatch.Bounds

	mu       sync.RWMutex
	known    map[string]*crd.Stored
	revision uint64 // everything up to this revision was reported
	complete chan struct{}
	once     sync.Once
}

// NewCRDs returns a watcher that calls changed for each CustomResourceDefinition that it
// finds, that changes and that is deleted: old is nil for a new one, current for a deleted one.
// Calls come one at a time; a definition that was recreated while the watch was broken comes as a
// change. Keep makes it ready to be stored.
func NewCRDs(config *rest.Config, httpClient *http.Client, log logr.Logger, keep func(*apiextensionsv1.CustomResourceDefinition) *crd.Stored,
	changed func(old, current *crd.Stored)) (*CRDs, error) {
	client, err := apiextensions.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	c := &CRDs{keep: keep, changed: changed, log: log, api: api, complete: make(chan struct{})}
	c.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return listwatch.List(ctx, func(ctx context.Context) (*apiextensionsv1.CustomResourceDefinitionList, error) {
				return api.List(ctx, o)
			})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return c.bounds.Watch(ctx, o, func(ctx context.Context) (apiwatch.Interface, error) { return api.Watch(ctx, o) })
		},
	}, &apiextensionsv1.CustomResourceDefinition{}, reflectorStore{c}, cache.ReflectorOptions{Logger: &log, Name: "kinds", Backoff: watchBackoff()})
	return c, nil
}

// watchBackoff paces attempts. Everything waits for what is known of kinds, so it finds an
// API server that restarts soon after it is back.
func watchBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5, Cap: 2 * time.Second}
}

// Run watches until the context ends.
func (c *CRDs) Run(ctx context.Context) { RunReflector(ctx, c.log, c.reflector, watchBackoff) }

// Synced is closed once all existing definitions were reported.
func (c *CRDs) Synced() <-chan struct{} { return c.complete }

// List reads all definitions from the API server, keyed by name. It does not need Run.
func (c *CRDs) List(ctx context.Context) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	list, err := c.api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	out := make(map[string]*apiextensionsv1.CustomResourceDefinition, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// Get returns a definition as last reported.
func (c *CRDs) Get(name string) (*crd.Stored, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found, ok := c.known[name]
	return found, ok
}

// HasObserved reports whether everything up to a revision was reported.
func (c *CRDs) HasObserved(revision string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision >= parseRevision(revision)
}

func (c *CRDs) advanceRevision(revision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision = max(c.revision, parseRevision(revision))
}

// A nil current removes the definition.
func (c *CRDs) set(name string, current *crd.Stored) {
	c.mu.Lock()
	old := c.known[name]
	if c.known == nil {
		c.known = map[string]*crd.Stored{}
	}
	c.known[name] = current
	if current == nil {
		delete(c.known, name)
	}
	c.mu.Unlock()
	if old != nil || current != nil {
		c.changed(old, current)
	}
}

type reflectorStore struct{ *CRDs }

var (
	_ cache.TransformingStore      = reflectorStore{}
	_ cache.ReflectorBookmarkStore = reflectorStore{}
)

// Transformer is applied to each object of the first list, so they are not all in memory whole.
func (s reflectorStore) Transformer() cache.TransformFunc {
	return func(o any) (any, error) { return s.stored(o) }
}

func (s reflectorStore) stored(o any) (*crd.Stored, error) {
	switch o := o.(type) {
	case *crd.Stored:
		return o, nil
	case *apiextensionsv1.CustomResourceDefinition:
		return s.keep(o), nil
	}
	return nil, fmt.Errorf("decode CustomResourceDefinition: unexpected type %T", o)
}

// Add handles an event of the watch.
func (s reflectorStore) Add(o any) error { return s.Update(o) }

// Update handles an event of the watch.
func (s reflectorStore) Update(o any) error {
	c, err := s.stored(o)
	if err != nil {
		return err
	}
	s.set(c.Name, c)
	s.advanceRevision(c.ResourceVersion)
	return nil
}

// Delete handles an event of the watch. Its object has the revision of the deletion.
func (s reflectorStore) Delete(o any) error {
	if c, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
		s.set(c.Name, nil)
		s.advanceRevision(c.ResourceVersion)
	}
	return nil
}

// Bookmark records how far the watch has come.
func (s reflectorStore) Bookmark(revision string) error {
	s.advanceRevision(revision)
	return nil
}

// Replace handles a complete list. It reports deletions first: another definition may have
// taken the kind.
func (s reflectorStore) Replace(items []any, revision string) error {
	listed := map[string]bool{}
	for _, o := range items {
		if c, ok := o.(metav1.Object); ok {
			listed[c.GetName()] = true
		}
	}
	s.mu.RLock()
	var gone []string
	for name := range s.known {
		if !listed[name] {
			gone = append(gone, name)
		}
	}
	s.mu.RUnlock()
	for _, name := range gone {
		s.set(name, nil)
	}
	for _, o := range items {
		if err := s.Update(o); err != nil {
			return err
		}
	}
	s.advanceRevision(revision)
	s.bounds.Complete()
	s.once.Do(func() { close(s.complete) })
	return nil
}

// Resync is never called.
func (reflectorStore) Resync() error { return nil }
