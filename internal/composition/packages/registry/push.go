package registry

import (
	"context"
	"errors"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// Push writes packages under a tag, and returns the digest that the tag then has: one image as it is, several as an index. The manifests have
// annotations.
func (c *Client) Push(ctx context.Context, to xpkg.Reference, images []v1.Image, annotations map[string]string, keychain authn.Keychain) (v1.Hash, error) {
	if to.Tag == "" || to.Digest != "" {
		return v1.Hash{}, errors.New("a package is pushed under a tag, and without a digest")
	}
	repository, err := c.repository(to)
	if err != nil {
		return v1.Hash{}, err
	}
	tag := repository.Tag(to.Tag)
	annotated := make([]v1.Image, len(images))
	for i, image := range images {
		if annotated[i], err = xpkg.Annotate(image, annotations); err != nil {
			return v1.Hash{}, err
		}
	}
	options := c.options(ctx, keychain, false)
	if len(images) == 1 {
		if err := remote.Write(tag, annotated[0], options...); err != nil {
			return v1.Hash{}, explain(to, err)
		}
		return annotated[0].Digest()
	}
	index, err := xpkg.Index(annotated, annotations)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return v1.Hash{}, explain(to, err)
	}
	return index.Digest()
}
