package local

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// counted is an image that counts how often its layers are read.
type counted struct {
	v1.Image
	reads atomic.Int32
	err   error
}

func (c *counted) Layers() ([]v1.Layer, error) {
	c.reads.Add(1)
	if c.err != nil {
		return nil, c.err
	}
	return c.Image.Layers()
}

func TestAnImageIsUnpackedOnce(t *testing.T) {
	s := NewStore(t.TempDir())
	image := &counted{Image: imageOf(t, layerOf(t, file("a", "1")))}
	for range 2 {
		u, err := s.open(t.Context(), image)
		if err != nil {
			t.Fatal(err)
		}
		if got := list(t, u.root)["a"]; got != "644 1" || u.Bytes != 1 || u.Config == nil {
			t.Errorf("want the file, got %q of %d bytes", got, u.Bytes)
		}
		u.release()
	}
	if n := image.reads.Load(); n != 1 {
		t.Errorf("it was unpacked %d times", n)
	}
}

func TestAFailureLeavesNothing(t *testing.T) {
	s := NewStore(t.TempDir())
	image := &counted{Image: imageOf(t, layerOf(t, file("a", "1"))), err: errors.New("connection reset")}
	if _, err := s.open(t.Context(), image); err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) != 0 {
		t.Errorf("want nothing, got %v, %v", entries, err)
	}
	image.err = nil
	u, err := s.open(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	u.release()
}

// damaged is a layer with other content than its digest.
type damaged struct{ v1.Layer }

func (d damaged) Uncompressed() (io.ReadCloser, error) {
	content, err := d.Layer.Uncompressed()
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(content, failing{}), content}, err
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("error verifying digest") }

type imageWith struct {
	v1.Image
	layer v1.Layer
}

func (i imageWith) Layers() ([]v1.Layer, error) { return []v1.Layer{i.layer}, nil }

// TestTheEndOfALayerIsRead although the archive in it ends before: the digest is verified there.
func TestTheEndOfALayerIsRead(t *testing.T) {
	s := NewStore(t.TempDir())
	layer := layerOf(t, file("a", "1"))
	if _, err := s.open(t.Context(), imageWith{imageOf(t, layer), damaged{layer}}); err == nil || !strings.Contains(err.Error(), "verifying digest") {
		t.Errorf("want the image refused, got %v", err)
	}
}

func TestImagesInUseAreNotEvicted(t *testing.T) {
	s := NewStore(t.TempDir())
	s.MaxBytes = 3
	open := func(content string) *unpacked {
		t.Helper()
		u, err := s.open(t.Context(), imageOf(t, layerOf(t, file("a", content))))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	exists := func(u *unpacked) bool {
		_, err := os.Stat(filepath.Join(u.root, "a"))
		return err == nil
	}
	used, unused := open("11"), open("22")
	unused.release()
	if err := os.WriteFile(filepath.Join(s.Dir, "a file of another program"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	third := open("33")
	if !exists(used) || exists(unused) || !exists(third) {
		t.Errorf("want only the unused one gone: %t, %t, %t", exists(used), exists(unused), exists(third))
	}
	used.release()
	third.release()
	if last := open("444"); exists(used) || exists(third) || !exists(last) {
		t.Error("want the last one to be left alone")
	}
}
