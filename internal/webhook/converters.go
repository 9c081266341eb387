package webhook

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Reader reads objects from the API server.
type Reader interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
}

// ConverterCache compiles converters from CustomResourceDefinitions, once per change of one.
// It needs no watch, no definition and no leader: the request has the digest of the
// CustomResourceDefinition that the API server uses, and one that is not cached is read.
type ConverterCache struct {
	Reader Reader

	reads      singleflight.Group
	mu         sync.Mutex
	converters map[string]compiledKind
}

type compiledKind struct {
	digest    string
	converter *conversion.Converter
}

// ConverterFor implements Converters.
func (c *ConverterCache) ConverterFor(ctx context.Context, name, digest string) (*conversion.Converter, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, ErrNoConversion
	}
	var found compiledKind
	// A read that another request has started may return the state before the change.
	for range 2 {
		c.mu.Lock()
		known, ok := c.converters[name]
		c.mu.Unlock()
		if ok && known.digest == digest {
			return known.converter, nil
		}
		answer := c.reads.DoChan(name, func() (any, error) { return c.read(context.WithoutCancel(ctx), name) })
		select {
		case result := <-answer:
			if result.Err != nil {
				return nil, result.Err
			}
			found, _ = result.Val.(compiledKind)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if found.digest == digest {
			break
		}
	}
	// If the digest still differs, the API server's state is older: the current one counts.
	return found.converter, nil
}

func (c *ConverterCache) read(ctx context.Context, name string) (compiledKind, error) {
	ctx, cancel := context.WithTimeout(ctx, conversionLimit)
	defer cancel()
	o, err := c.Reader.Get(ctx, crd.Kind, "", name)
	if kube.IsObjectNotFound(err, name) {
		c.forget(name)
		return compiledKind{}, ErrNoConversion
	}
	if err != nil {
		return compiledKind{}, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	current, err := crd.Decode(o)
	if err != nil {
		return compiledKind{}, err
	}
	if _, ours := crd.Owner(current); !ours || !kind.Converts(current) {
		c.forget(name)
		return compiledKind{}, ErrNoConversion
	}
	converter, err := kind.Converter(current)
	if err != nil {
		return compiledKind{}, err
	}
	found := compiledKind{digest: install.ConversionDigest(current), converter: converter}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.converters == nil {
		c.converters = map[string]compiledKind{}
	}
	c.converters[name] = found
	return found, nil
}

func (c *ConverterCache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.converters, name)
}
