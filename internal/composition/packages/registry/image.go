package registry

import (
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image is the image of a manifest; for an index, of one of its manifests. Its layers are fetched into the cache and read from there.
func (s *session) image(digest v1.Hash, m *manifest, platform *v1.Platform) (v1.Image, error) {
	if len(m.Manifests) > 0 {
		chosen, err := m.forPlatform(platform)
		if err != nil {
			return nil, err
		}
		raw, err := s.manifest(chosen.Digest)
		if err != nil {
			return nil, err
		}
		if m, err = parseManifest(raw); err != nil {
			return nil, err
		}
		if len(m.Manifests) > 0 {
			return nil, errors.New("an index of the package names an index")
		}
		digest = chosen.Digest
	}
	raw, err := s.cached(digest)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&storedImage{session: s, raw: raw, manifest: m})
}

// storedImage implements partial.CompressedImageCore.
type storedImage struct {
	*session
	raw      []byte
	manifest *manifest
}

// RawManifest implements partial.WithRawManifest.
func (i *storedImage) RawManifest() ([]byte, error) { return i.raw, nil }

// MediaType implements partial.WithMediaType.
func (i *storedImage) MediaType() (types.MediaType, error) { return i.manifest.MediaType, nil }

// RawConfigFile implements partial.WithRawConfigFile.
func (i *storedImage) RawConfigFile() ([]byte, error) {
	d := i.manifest.Config
	if d.Size > maxConfig {
		return nil, fmt.Errorf("the configuration of the image has %d bytes, more than the %d that are allowed", d.Size, maxConfig)
	}
	content, err := i.blob(d)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}

// LayerByDigest implements partial.CompressedImageCore.
func (i *storedImage) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range append(i.manifest.Layers, i.manifest.Config) {
		if d.Digest == digest {
			return &storedLayer{i.session, d}, nil
		}
	}
	return nil, fmt.Errorf("the image has no layer %s", digest)
}

// storedLayer implements partial.CompressedLayer.
type storedLayer struct {
	*session
	descriptor v1.Descriptor
}

// Digest implements partial.CompressedLayer.
func (l *storedLayer) Digest() (v1.Hash, error) { return l.descriptor.Digest, nil }

// Size implements partial.CompressedLayer.
func (l *storedLayer) Size() (int64, error) { return l.descriptor.Size, nil }

// MediaType implements partial.CompressedLayer.
func (l *storedLayer) MediaType() (types.MediaType, error) { return l.descriptor.MediaType, nil }

// Compressed implements partial.CompressedLayer.
func (l *storedLayer) Compressed() (io.ReadCloser, error) { return l.blob(l.descriptor) }
