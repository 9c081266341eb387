package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

// TestRequestsShareReads has requests of random names arrive for a minute.
func TestRequestsShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		s := sharedRead[int]{read: func(context.Context) (int, error) { reads++; return reads, nil }}
		var all sync.WaitGroup
		for range 60 {
			for range 100 {
				all.Go(func() {
					if _, err := s.get(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			<-time.After(time.Second) // of the bubble
		}
		all.Wait()
		if limit := maxSharedReadBurst + 61*maxSharedReads; reads > limit {
			t.Errorf("%d reads for 6000 requests, more than %d", reads, limit)
		}
	})
}

// TestAReadBeginsAfterTheRequest has a request arrive while another one's read runs.
func TestAReadBeginsAfterTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := 1
		release := make(chan struct{})
		s := sharedRead[int]{read: func(context.Context) (int, error) {
			seen := stored
			<-release
			return seen, nil
		}}
		results := make(chan int, 2)
		get := func() {
			value, _ := s.get(t.Context())
			results <- value
		}
		go get()
		synctest.Wait()
		stored = 2
		go get()
		synctest.Wait()
		release <- struct{}{}
		if first := <-results; first != 1 {
			t.Errorf("the first is %d", first)
		}
		close(release)
		if second := <-results; second != 2 {
			t.Errorf("the second gets %d, which was read before it arrived", second)
		}
	})
}

func TestAReadThatFailsOrTakesTooLongSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := sharedRead[int]{read: func(context.Context) (int, error) { return 0, errors.New("no way") }}
		if _, err := failing.get(t.Context()); err == nil || err.Error() != "no way" {
			t.Error(err)
		}
		broken := sharedRead[int]{read: func(context.Context) (int, error) { panic("secret") }}
		if _, err := broken.get(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
		slow := sharedRead[int]{read: func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := slow.get(ctx); err == nil || !strings.Contains(err.Error(), "2 reads a second serve all requests") {
			t.Error(err)
		}
		<-time.After(readLimit) // of the bubble: the read ends as well
	})
}

// TestRandomConversionsReadNothing sends names and digests that no API server sends.
func TestRandomConversionsReadNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := apps(t, "count")
		l := &library{kinds: map[string]*apiextensionsv1.CustomResourceDefinition{kind.Name: kind}}
		c := NewConverterCache(l)
		if _, err := c.ConverterFor(t.Context(), kind.Name, install.ConversionDigest(kind)); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute) // of the bubble
		lists, reads := l.lists, l.reads
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				if _, err := c.ConverterFor(t.Context(), fmt.Sprintf("x%d.example.org", i), "x"); !errors.Is(err, ErrNoConversion) {
					t.Error(err)
				}
				if _, err := c.ConverterFor(t.Context(), kind.Name, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if l.reads != reads || l.lists > lists+2*maxSharedReadBurst || len(c.kinds) != 1 {
			t.Errorf("%d reads and %d lists more; it keeps %d kinds", l.reads-reads, l.lists-lists, len(c.kinds))
		}
	})
}

// TestAnAPIServerThatHasNotSeenAChangeIsAnswered has it send the digest of before.
func TestAnAPIServerThatHasNotSeenAChangeIsAnswered(t *testing.T) {
	before, after := apps(t, "count"), apps(t, "size")
	l := &library{kinds: map[string]*apiextensionsv1.CustomResourceDefinition{before.Name: before}}
	c := NewConverterCache(l)
	for _, kind := range []*apiextensionsv1.CustomResourceDefinition{before, after} {
		l.kinds[kind.Name] = kind
		if _, err := c.ConverterFor(t.Context(), kind.Name, install.ConversionDigest(kind)); err != nil {
			t.Fatal(err)
		}
	}
	lists := l.lists
	converter, err := c.ConverterFor(t.Context(), before.Name, install.ConversionDigest(before))
	if err != nil || converter != c.kinds[before.Name].converter || l.lists != lists {
		t.Errorf("%v after %d lists", err, l.lists-lists)
	}
}

// indexed are usages that a process knows from its watches.
type indexed []usage.Usage

func (i indexed) UsesOf(object.Key) ([]usage.Usage, *plan.Unreadable) { return i, nil }

func configMap(name string) *unstructured.Unstructured {
	return fakekube.Parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: prod}}")
}

// counting counts the reads of a fake.
type counting struct {
	*kube.Client
	mu          sync.Mutex
	lists, gets []string
}

func (c *counting) List(ctx context.Context, gvk schema.GroupVersionKind, selector string) ([]unstructured.Unstructured, error) {
	c.mu.Lock()
	c.lists = append(c.lists, gvk.Kind)
	c.mu.Unlock()
	return c.Client.List(ctx, gvk, selector)
}

func (c *counting) Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	c.mu.Lock()
	c.gets = append(c.gets, gvk.Kind+" "+namespace+"/"+name)
	c.mu.Unlock()
	return c.Client.Get(ctx, gvk, namespace, name)
}

// TestRandomDeletionsReadOnlyUsages sends objects that do not exist, and names owners in them.
func TestRandomDeletionsReadOnlyUsages(t *testing.T) {
	const uses = "{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {name: u, namespace: prod}, spec: " +
		"{of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}, by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: using}}}}"
	fake := fakekube.New(uses)
	fake.Add(configMap("used"))
	fake.Add(configMap("using"))
	cluster := &counting{Client: fake.Client()}
	known := NewClusterUsages(indexed{}, cluster, nil)
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				forged := configMap(fmt.Sprintf("x%d", i))
				forged.SetKind("Kind" + fmt.Sprint(i))
				if found, err := known.UsesOf(t.Context(), forged); err != nil || len(found) > 0 {
					t.Errorf("%v, %v", found, err)
				}
			})
		}
		all.Wait()
	})
	if len(cluster.lists) > 2*maxSharedReadBurst*len(usage.Kinds) || len(cluster.gets) > 0 {
		t.Errorf("%d lists, and reads of %v", len(cluster.lists), cluster.gets)
	}
	forged := configMap("used")
	forged.SetAPIVersion("v7")
	forged.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": "x", "kro.run/instance-name": "secret", "kro.run/instance-kind": "Secret", "kro.run/instance-version": "v1"})
	found, err := NewClusterUsages(indexed{}, cluster, nil).UsesOf(t.Context(), forged)
	if err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
	if got := strings.Join(cluster.gets, ", "); got != "ConfigMap prod/using, ConfigMap prod/used" {
		t.Errorf("it reads %s", got)
	}
}
