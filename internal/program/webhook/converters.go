package webhook

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// CustomResourceDefinitions reads CustomResourceDefinitions from the API server.
type CustomResourceDefinitions interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	// ResourceVersions returns the resource versions of the ones that definitions own, by name.
	ResourceVersions(context.Context) (map[string]string, error)
}

// ConverterCache compiles converters from CustomResourceDefinitions, once per change of one. It needs no watch, no
// definition and no leader: the request contains the digest of the CustomResourceDefinition that the API server uses.
//
// Any client that reaches the webhook can send any name and digest. So one that is not cached only takes part in a
// shared list of metadata; only a CustomResourceDefinition that is in the list, and has changed since it was read, is
// read.
type ConverterCache struct {
	reader   CustomResourceDefinitions
	versions sharedRead[map[string]string]
	rate     flowcontrol.RateLimiter // of single reads

	reads singleflight.Group
	mu    sync.Mutex
	kinds map[string]compiledKind
}

// compiledKind is what is known of a CustomResourceDefinition at a resource version: its converter,
// or why it has none.
type compiledKind struct {
	resourceVersion string
	digest          string
	// formerDigest is the one before: an API server that has not seen the change yet sends it.
	formerDigest string
	converter    *conversion.Converter
	err          error
}

// NewConverterCache returns a cache that is empty.
func NewConverterCache(reader CustomResourceDefinitions) *ConverterCache {
	return &ConverterCache{
		reader: reader, versions: sharedRead[map[string]string]{read: reader.ResourceVersions},
		rate: flowcontrol.NewTokenBucketRateLimiter(maxSingleReads, maxSingleReadBurst), kinds: map[string]compiledKind{},
	}
}

// ConverterFor implements Converters.
func (c *ConverterCache) ConverterFor(ctx context.Context, name, digest string) (*conversion.Converter, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, ErrNoConversion
	}
	known, ok := c.cached(name)
	if ok && known.err == nil && (known.digest == digest || known.formerDigest == digest) {
		return known.converter, nil
	}
	versions, err := c.versions.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	version, exists := versions[name]
	if !exists {
		c.forget(name)
		return nil, ErrNoConversion
	}
	if known, ok = c.cached(name); ok && known.resourceVersion == version {
		// If the digest differs, the API server's state is older: the current one counts.
		return known.converter, known.err
	}
	answer := c.reads.DoChan(name+"@"+version, func() (any, error) { return c.read(name) })
	select {
	case result := <-answer:
		found, _ := result.Val.(compiledKind)
		return found.converter, result.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read serves all requests that wait for the same CustomResourceDefinition.
func (c *ConverterCache) read(name string) (compiledKind, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	if err := c.rate.Wait(ctx); err != nil {
		return compiledKind{}, fmt.Errorf("read CustomResourceDefinition %s: more than %d reads a second: %w", name, maxSingleReads, err)
	}
	o, err := c.reader.Get(ctx, crd.Kind, "", name)
	if kube.IsObjectNotFound(err, name) {
		c.forget(name)
		return compiledKind{}, ErrNoConversion
	}
	if err != nil {
		return compiledKind{}, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	former, _ := c.cached(name)
	found := compile(o, former)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[name] = found
	return found, found.err
}

// compile compiles the converter of a CustomResourceDefinition, unless its conversions are as before.
func compile(o *unstructured.Unstructured, former compiledKind) compiledKind {
	found := compiledKind{resourceVersion: o.GetResourceVersion()}
	current, err := crd.Decode(o)
	if err != nil {
		found.err = err
		return found
	}
	if _, ours := crd.Owner(current); !ours || !kind.Converts(current) {
		found.err = ErrNoConversion
		return found
	}
	found.digest = install.ConversionDigest(current)
	if former.converter != nil && former.digest == found.digest {
		found.formerDigest, found.converter = former.formerDigest, former.converter
		return found
	}
	found.formerDigest = former.digest
	found.converter, found.err = NewConverter(current)
	return found
}

// NewConverter returns the converter of a kind that a definition serves, from its CustomResourceDefinition.
func NewConverter(c *apiextensionsv1.CustomResourceDefinition) (*conversion.Converter, error) {
	converter, err := kind.Converter(c)
	if err != nil {
		return nil, err
	}
	rules, err := admission.NewSpecRules(c, crd.StorageVersion(c))
	if err != nil {
		return nil, fmt.Errorf("read the rules of CustomResourceDefinition %s: %w", c.Name, err)
	}
	return converter.WithRules(rules.Broken), nil
}

func (c *ConverterCache) cached(name string) (compiledKind, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.kinds[name]
	return known, ok
}

func (c *ConverterCache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kinds, name)
}
