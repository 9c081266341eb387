package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// manifest is the manifest of an image, with Config and Layers, or an index of images, with Manifests.
type manifest struct {
	MediaType types.MediaType `json:"mediaType"`
	Config    v1.Descriptor   `json:"config"`
	Layers    []v1.Descriptor `json:"layers"`
	Manifests []v1.Descriptor `json:"manifests"`
}

// parseManifest refuses a manifest that is both: readers would disagree on what it is.
func parseManifest(raw []byte) (*manifest, error) {
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("the manifest of the package cannot be read: %w", err)
	}
	isImage, isIndex := m.Config.Digest.Hex != "", len(m.Manifests) > 0
	switch {
	case isImage && isIndex:
		return nil, errors.New("the manifest of the package has both layers, as an image, and manifests, as an index")
	case !isImage && !isIndex:
		return nil, errors.New("the reference is not an image or an index of images, or one of a format that Docker no longer uses")
	case m.MediaType == "":
		m.MediaType = types.OCIManifestSchema1
	}
	return &m, nil
}

// forPlatform returns the image for a platform from an index. Without a platform it is linux/amd64, or else the first: the content of a package is
// the same in all images of it.
func (m *manifest) forPlatform(wanted *v1.Platform) (v1.Descriptor, error) {
	var images []v1.Descriptor
	var names []string
	for _, d := range m.Manifests {
		if d.Platform == nil {
			d.Platform = &v1.Platform{}
		}
		if !d.MediaType.IsImage() || d.Platform.OS == "unknown" { // such as an attestation
			continue
		}
		images, names = append(images, d), append(names, d.Platform.String())
	}
	preferred := v1.Platform{OS: "linux", Architecture: "amd64"}
	if wanted != nil {
		preferred = *wanted
	}
	for _, d := range images {
		if d.Platform.Satisfies(preferred) {
			return d, nil
		}
	}
	switch {
	case wanted != nil:
		return v1.Descriptor{}, fmt.Errorf("the package is not for %s; it is for %s", wanted, strings.Join(names, ", "))
	case len(images) == 0:
		return v1.Descriptor{}, xpkg.ErrNoStream
	}
	return images[0], nil
}
