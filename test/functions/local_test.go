package functions

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	catalog "github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// programImage is an image with the test's own program as a function.
func programImage(t *testing.T) v1.Image {
	t.Helper()
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "function", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(self))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(self); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	config := &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}}
	config.Config = v1.Config{Entrypoint: []string{"/function"}, Env: []string{life + "=1"}}
	image, err := mutate.ConfigFile(empty.Image, config)
	if err == nil {
		image, err = mutate.AppendLayers(image, layer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// TestAPackageRunsOnThisMachine from the moment that its Function is applied until it is deleted, and its conditions
// say what happens.
func TestAPackageRunsOnThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux runs images")
	}
	image := programImage(t)
	fetchable := make(chan struct{})
	running, err := local.New(local.Options{
		Store: local.NewStore(t.TempDir()),
		Fetch: func(ctx context.Context, p local.Package, _ v1.Platform) (v1.Image, error) {
			if strings.Contains(p.Image, "missing") {
				return nil, errors.New("404 Not Found")
			}
			select {
			case <-fetchable:
				return image, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Close)
	w := newTestCatalog(t, catalog.Options{Packages: running})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: packaged}, spec: {package: registry.example.org/packaged:v1}}")
	w.awaitConditions(t, "packaged", "False UnpackingPackage", "False UnhealthyPackageRevision")
	w.expectAnswer(t, "packaged", "fetching registry.example.org/packaged:v1")
	close(fetchable)
	w.awaitConditions(t, "packaged", "True ActivePackageRevision", "True HealthyPackageRevision")
	if _, err := strconv.Atoi(w.call(t, "packaged")); err != nil {
		t.Errorf("it is not called: %v", err)
	}
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: packaged}, spec: {package: registry.example.org/missing:v1}}")
	w.Await(t, catalog.FunctionKind, "", "packaged", suite.HasCondition("Installed", "False", "UnpackingPackage", "404 Not Found"))
	if s := running.State(local.Package{Function: "packaged", Image: "registry.example.org/packaged:v1", Pull: "IfNotPresent"}); s != (local.State{}) {
		t.Errorf("the former package runs on: %+v", s)
	}
	w.Delete(t, catalog.FunctionKind, "", "packaged")
	w.expectAnswer(t, "packaged", "there is no function")
}
