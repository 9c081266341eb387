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
)

// CRDs follows the CustomResourceDefinitions of a cluster. It is a watch of its
// own, apart from the hub's, since what is known of kinds decides whether objects
// are gone for good: nothing else may run before it is complete. It is safe for
// concurrent use.
type CRDs struct {
	reflector *cache.Reflector
	changed   func(was, is *apiextensionsv1.CustomResourceDefinition)
	log       logr.Logger
	api       apiextensionsclient.CustomResourceDefinitionInterface

	mu       sync.RWMutex
	known    map[string]*apiextensionsv1.CustomResourceDefinition
	past     uint64 // everything up to this revision has been told of
	complete chan struct{}
	once     sync.Once
}

// NewCRDs returns a follower that tells of each definition as it is found, changes
// and goes: was is nil for one that wasn't known, is for one that is gone. Both are
// shared and must not be changed; without the texts that only people read, unless
// the definition is ours. Calls come one at a time, and one that was recreated
// while the watch was broken comes as a change.
func NewCRDs(config *rest.Config, httpClient *http.Client, log logr.Logger, changed func(was, is *apiextensionsv1.CustomResourceDefinition)) (*CRDs, error) {
	client, err := apiextensions.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	c := &CRDs{changed: changed, log: log, api: api, complete: make(chan struct{})}
	c.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) { return api.Watch(ctx, o) },
	}, &apiextensionsv1.CustomResourceDefinition{}, crdStore{c}, cache.ReflectorOptions{Logger: &log, Name: "kinds", Backoff: patience()})
	return c, nil
}

// patience paces attempts. Everything waits for what is known of kinds, so an API
// server that restarts is found soon after it is back.
func patience() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5, Cap: 2 * time.Second}
}

// Run follows until the context ends.
func (c *CRDs) Run(ctx context.Context) {
	ctx = logr.NewContext(ctx, c.log)
	for retry := patience(); ctx.Err() == nil; {
		began := time.Now()
		if err := c.reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			c.log.V(1).Info("watch of CustomResourceDefinitions ended", "reason", err.Error())
		}
		if time.Since(began) > time.Minute {
			retry = patience()
		}
		pause := time.NewTimer(retry.Step())
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// Complete is closed once all definitions have been told of.
func (c *CRDs) Complete() <-chan struct{} { return c.complete }

// List reads all definitions from the API server, by their names. It is for those who
// don't follow them.
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

// Get returns a definition as the watch last told of it.
func (c *CRDs) Get(name string) (*apiextensionsv1.CustomResourceDefinition, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found, ok := c.known[name]
	return found, ok
}

// Past tells whether the watch has told of everything up to a revision.
func (c *CRDs) Past(revision string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.past >= parseRevision(revision)
}

func (c *CRDs) reached(revision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.past = max(c.past, parseRevision(revision))
}

// set puts a definition in place, or takes it away, and tells of it.
func (c *CRDs) set(name string, is *apiextensionsv1.CustomResourceDefinition) {
	c.mu.Lock()
	was := c.known[name]
	if c.known == nil {
		c.known = map[string]*apiextensionsv1.CustomResourceDefinition{}
	}
	c.known[name] = is
	if is == nil {
		delete(c.known, name)
	}
	c.mu.Unlock()
	if was != nil || is != nil {
		c.changed(was, is)
	}
}

// crdStore is the follower as its reflector sees it.
type crdStore struct{ *CRDs }

var (
	_ cache.TransformingStore      = crdStore{}
	_ cache.ReflectorBookmarkStore = crdStore{}
)

// Transformer keeps what is held small.
func (crdStore) Transformer() cache.TransformFunc { return slim }

// Add takes an event of the watch.
func (s crdStore) Add(o any) error { return s.Update(o) }

// Update takes an event of the watch.
func (s crdStore) Update(o any) error {
	c, ok := o.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return fmt.Errorf("a %T among CustomResourceDefinitions", o)
	}
	s.set(c.Name, c)
	s.reached(c.ResourceVersion)
	return nil
}

// Delete takes an event of the watch. The revision that it carries is that of the
// deletion.
func (s crdStore) Delete(o any) error {
	if c, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
		s.set(c.Name, nil)
		s.reached(c.ResourceVersion)
	}
	return nil
}

// Bookmark notes how far the watch is.
func (s crdStore) Bookmark(revision string) error {
	s.reached(revision)
	return nil
}

// Replace takes a complete list. What is gone is told of first: another may have
// its kind.
func (s crdStore) Replace(items []any, revision string) error {
	listed := map[string]bool{}
	for _, o := range items {
		if c, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
			listed[c.Name] = true
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
	s.reached(revision)
	s.once.Do(func() { close(s.complete) })
	return nil
}

// Resync is never asked for.
func (crdStore) Resync() error { return nil }

// slim drops from a CustomResourceDefinition what only people read.
func slim(o any) (any, error) {
	c, ok := o.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return o, nil
	}
	delete(c.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if crd.IsCompared(c) {
		return c, nil
	}
	c.ManagedFields = nil
	for i := range c.Spec.Versions {
		if s := c.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
			wordless(s.OpenAPIV3Schema)
		}
	}
	return c, nil
}

func wordless(s *apiextensionsv1.JSONSchemaProps) {
	s.Description = ""
	for name, p := range s.Properties {
		wordless(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		wordless(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		wordless(s.AdditionalProperties.Schema)
	}
}
