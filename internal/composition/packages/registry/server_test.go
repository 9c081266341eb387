package registry

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	fakeregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// server is a registry in the process, with TLS. A fault may answer a request instead, and then returns true.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	fault    func(w http.ResponseWriter, r *http.Request) bool
	requests []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	registry := fakeregistry.New(fakeregistry.Logger(log.New(io.Discard, "", 0)))
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		fault := s.fault
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		if fault == nil || !fault(w, r) {
			registry.ServeHTTP(w, r)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) setFault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.requests = fault, nil
}

// count counts requests with a part.
func (s *server) count(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.Contains(r, part) {
			n++
		}
	}
	return n
}

func (s *server) ref(t *testing.T, text string) xpkg.Reference {
	t.Helper()
	r, err := xpkg.ParseReference(strings.TrimPrefix(s.URL, "https://") + "/" + text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ca is the server's certificate in PEM.
func (s *server) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func (s *server) client(t *testing.T, cache *Cache) *Client {
	t.Helper()
	c, err := New(Options{CABundle: s.ca(), UserAgent: "espalier/test"}, cache)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newCache(t *testing.T) *Cache {
	t.Helper()
	c, err := OpenCache(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// push pushes a configuration with a name, and returns its digest.
func (s *server) push(t *testing.T, to, name string) v1.Hash {
	t.Helper()
	image, _, err := xpkg.Build([]xpkg.File{{Name: "crossplane.yaml", Text: "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: " + name + "}\n"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.pushImages(t, to, image)
}

func (s *server) pushImages(t *testing.T, to string, images ...v1.Image) v1.Hash {
	t.Helper()
	digest, err := s.client(t, nil).Push(context.WithoutCancel(t.Context()), s.ref(t, to), images, nil, authn.NewMultiKeychain())
	if err != nil {
		t.Fatal(err)
	}
	return digest
}
