package image

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// descriptor, manifest and configuration are what the tests read of the OCI image specification.
type descriptor struct {
	MediaType    string
	Digest       string
	ArtifactType string
	Platform     struct{ OS, Architecture string }
	Annotations  map[string]string
}

type manifest struct {
	Manifests, Layers []descriptor
	Config            descriptor
	Subject           *descriptor
	ArtifactType      string
	Annotations       map[string]string
}

type configuration struct {
	OS, Architecture string
	Config           struct {
		User            string
		Entrypoint, Cmd []string
		Labels          map[string]string
	}
}

// ociLayout is the directory of an image in the OCI image layout.
type ociLayout string

// blob returns a blob, after a check of its digest.
func (l ociLayout) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	digest, ok := strings.CutPrefix(d.Digest, "sha256:")
	if !ok {
		t.Fatalf("unknown digest %q", d.Digest)
	}
	raw, err := os.ReadFile(filepath.Join(string(l), "blobs", "sha256", digest))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != digest {
		t.Fatalf("the blob %s has the digest %s", digest, got)
	}
	return raw
}

func (l ociLayout) read(t *testing.T, d descriptor, into any) {
	t.Helper()
	if err := json.Unmarshal(l.blob(t, d), into); err != nil {
		t.Fatal(err)
	}
}

// index is the content of index.json.
func (l ociLayout) index(t *testing.T) (index manifest) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(string(l), "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	return index
}

// unpack unpacks the layers of an image into a directory, and checks that only root may write to its
// files. The image has directories and regular files only.
func (l ociLayout) unpack(t *testing.T, image manifest, root string) {
	t.Helper()
	for _, layer := range image.Layers {
		compressed, err := gzip.NewReader(strings.NewReader(string(l.blob(t, layer))))
		if err != nil {
			t.Fatal(err)
		}
		entries := tar.NewReader(compressed)
		for {
			header, err := entries.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Uid != 0 || header.Gid != 0 || header.Mode&0o022 != 0 || header.Mode&0o7000 != 0 {
				t.Errorf("%s has the owner %d:%d and the mode %04o", header.Name, header.Uid, header.Gid, header.Mode)
			}
			if !filepath.IsLocal(header.Name) {
				t.Fatalf("%s is outside of the image", header.Name)
			}
			unpackEntry(t, header, entries, filepath.Join(root, header.Name))
		}
	}
}

func unpackEntry(t *testing.T, header *tar.Header, content io.Reader, path string) {
	t.Helper()
	switch header.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	case tar.TypeReg:
		raw, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("%s is neither a directory nor a regular file", header.Name)
	}
}
