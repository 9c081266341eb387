package packages

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// images is a registry.
type images struct {
	host string
	// refuses is the status of each answer; 0 for those of the registry.
	refuses atomic.Int64
	// faults answer requests below paths, in place of the registry.
	faults sync.Map
}

// breaks has requests for blobs of a repository answered by a fault, until it is mended.
func (r *images) breaks(repository string, fault http.HandlerFunc) (mend func()) {
	path := "/v2/" + repository + "/blobs/"
	r.faults.Store(path, fault)
	return func() { r.faults.Delete(path) }
}

func (r *images) faultOf(path string) (fault http.HandlerFunc) {
	r.faults.Range(func(below, f any) bool {
		if strings.HasPrefix(path, below.(string)) {
			fault = f.(http.HandlerFunc)
		}
		return fault == nil
	})
	return fault
}

func newImages(t *testing.T) *images {
	t.Helper()
	r := &images{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if strings.HasPrefix(request.URL.Path, "/v2/private/") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if status := r.refuses.Load(); status != 0 {
			w.WriteHeader(int(status))
			return
		}
		if fault := r.faultOf(request.URL.Path); fault != nil && request.Method == http.MethodGet {
			fault(w, request)
			return
		}
		inner.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// push stores a package, and returns its digest.
func (r *images) push(t *testing.T, reference string, runtime v1.Image, documents ...string) string {
	t.Helper()
	image, _, err := xpkg.Build([]xpkg.File{{Name: "crossplane.yaml", Text: strings.Join(documents, "\n---\n")}}, nil, runtime)
	if err != nil {
		t.Fatal(err)
	}
	return r.store(t, reference, image)
}

func (r *images) store(t *testing.T, reference string, image v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(r.host + "/" + reference)
	if err == nil {
		err = remote.Write(ref, image)
	}
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// meta is the metadata of a package. Dependencies are "provider=source range".
func (r *images) meta(kind, name string, dependencies ...string) string {
	text := fmt.Sprintf("apiVersion: meta.pkg.crossplane.io/v1\nkind: %s\nmetadata: {name: %s}\nspec:\n", kind, name)
	if len(dependencies) > 0 {
		text += "  dependsOn:\n"
	}
	for _, d := range dependencies {
		what, version, _ := strings.Cut(d, " ")
		kind, source, _ := strings.Cut(what, "=")
		text += fmt.Sprintf("  - {%s: %s/%s, version: %q}\n", kind, r.host, source, version)
	}
	if len(dependencies) == 0 {
		text += "  capabilities: []\n"
	}
	return text
}

// answering is the image of a function that answers with a text: this program, with that variable.
func answering(t *testing.T, text string) v1.Image {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return script(t, fmt.Sprintf("%s=%s exec %s \"$@\"", answer, text, own))
}

// script is an image whose entrypoint is a script.
func script(t *testing.T, text string) v1.Image {
	t.Helper()
	image, err := mutate.Config(imageWith(t, "function", 0o755, []byte("#!/bin/sh\n"+text+"\n")), v1.Config{Entrypoint: []string{"/function"}})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// imageWith is an image with one file.
func imageWith(t *testing.T, file string, mode int64, content []byte) v1.Image {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err := w.WriteHeader(&tar.Header{Name: file, Mode: mode, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	return image
}
