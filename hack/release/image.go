package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user and group of the image. Kubernetes checks runAsNonRoot only if it is a number.
const user = "65532:65532"

const (
	emptyMediaType = "application/vnd.oci.empty.v1+json"
	refName        = "org.opencontainers.image.ref.name" // the tag, in an OCI layout
)

func buildImage(ctx context.Context, o *options) error {
	for _, p := range o.platforms {
		if p.os != "linux" {
			return fmt.Errorf("--platforms: an image for %s is not supported", p)
		}
	}
	all, err := buildAll(ctx, o, awsProgram)
	if err != nil {
		return err
	}
	digest, err := writeImage(o, all, o.output)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s:%s@%s\n", o.output, program, o.version, digest)
	return nil
}

// writeImage replaces a directory with an OCI layout of an image for all platforms, and returns the
// digest of its index. Beside the index, the layout has the SBOM of each platform, as an artifact that
// refers to the manifest of the platform.
func writeImage(o *options, all []*built, directory string) (v1.Hash, error) {
	if err := checkReplaceable(directory); err != nil {
		return v1.Hash{}, err
	}
	if err := os.RemoveAll(directory); err != nil {
		return v1.Hash{}, err
	}
	to, err := layout.Write(directory, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Annotations: o.annotations()}
	for _, b := range all {
		image, err := imageOf(o, b)
		if err != nil {
			return v1.Hash{}, err
		}
		if err := to.WriteImage(image); err != nil {
			return v1.Hash{}, err
		}
		d, err := partial.Descriptor(image)
		if err != nil {
			return v1.Hash{}, err
		}
		// The library adds an artifactType, with which some tools refuse to copy an index.
		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: d.MediaType, Size: d.Size, Digest: d.Digest, Platform: &v1.Platform{OS: b.os, Architecture: b.arch},
		})
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return v1.Hash{}, err
	}
	described, err := add(to, string(types.OCIImageIndex), raw)
	if err != nil {
		return v1.Hash{}, err
	}
	described.Annotations = map[string]string{refName: o.version}
	if err := to.AppendDescriptor(described); err != nil {
		return v1.Hash{}, err
	}
	for i, b := range all {
		if err := attach(o, to, index.Manifests[i], b); err != nil {
			return v1.Hash{}, err
		}
	}
	return described.Digest, nil
}

// checkReplaceable fails for a directory that has something else than an OCI layout.
func checkReplaceable(directory string) error {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(directory, "oci-layout")); err != nil {
		return fmt.Errorf("%s exists and is not an OCI layout", directory)
	}
	return nil
}

func (o *options) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       program,
		"org.opencontainers.image.description": "A control plane for platform APIs",
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.revision":    o.revision,
		"org.opencontainers.image.licenses":    license,
		"org.opencontainers.image.created":     o.date.Format(time.RFC3339),
	}
}

// baseFiles are the files of the image that its releases share: the name of the user, and the
// certificate authorities. There is no directory that anybody may write to.
func baseFiles() ([]file, error) {
	roots, err := rootCertificates()
	if err != nil {
		return nil, err
	}
	return withDirectories([]file{
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots},
	}), nil
}

// imageOf is the image for one platform. Its program is the one with AWS's SDK, under the name of the other.
func imageOf(o *options, b *built) (v1.Image, error) {
	base, err := baseFiles()
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile(filepath.Join(o.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: o.date}
	var adds []mutate.Addendum
	for _, layer := range []struct {
		comment string
		files   []file
	}{
		{"user and certificate authorities", base},
		{"program and licences", []file{
			{"LICENSE", 0o644, own},
			{"THIRD_PARTY_LICENSES", 0o644, licenceTexts(b.modules)},
			{program, 0o755, b.binary},
		}},
	} {
		add, err := layerOf(o, layer.files)
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: add, History: v1.History{Created: created, CreatedBy: "hack/release", Comment: layer.comment}})
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: b.os, Architecture: b.arch, Created: created,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user, Entrypoint: []string{"/" + program}, Cmd: []string{"run"}, WorkingDir: "/", Labels: o.annotations(),
		},
	})
	if err != nil {
		return nil, err
	}
	if image, err = mutate.Append(image, adds...); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(image, o.annotations()).(v1.Image)
	if !ok {
		return nil, errors.New("the image has lost its type")
	}
	return annotated, nil
}

func layerOf(o *options, files []file) (v1.Layer, error) {
	raw, err := tarOf(files, o.date)
	if err != nil {
		return nil, err
	}
	// With compressed content, the library keeps our compression.
	compressed, err := compress(raw)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(compressed)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// attach adds the SBOM to the layout, as an artifact that refers to the manifest of its platform:
// what the referrers API of a registry lists for the image.
func attach(o *options, to layout.Path, subject v1.Descriptor, b *built) error {
	subject.Platform = nil
	config, err := add(to, emptyMediaType, []byte("{}"))
	if err != nil {
		return err
	}
	document, err := sbom(o, b, rootsComponent())
	if err != nil {
		return err
	}
	content, err := add(to, sbomMediaType, document)
	if err != nil {
		return err
	}
	content.Annotations = map[string]string{"org.opencontainers.image.title": o.sbomName(b)}
	raw, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: sbomMediaType,
		Config: config, Layers: []v1.Descriptor{content}, Subject: &subject,
		Annotations: map[string]string{"org.opencontainers.image.created": o.date.Format(time.RFC3339)},
	})
	if err != nil {
		return err
	}
	manifest, err := add(to, string(types.OCIManifestSchema1), raw)
	if err != nil {
		return err
	}
	manifest.ArtifactType = sbomMediaType
	return to.AppendDescriptor(manifest)
}

// add adds a blob to the layout.
func add(to layout.Path, mediaType string, content []byte) (v1.Descriptor, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Descriptor{}, err
	}
	err = to.WriteBlob(digest, io.NopCloser(bytes.NewReader(content)))
	return v1.Descriptor{MediaType: types.MediaType(mediaType), Digest: digest, Size: size}, err
}
