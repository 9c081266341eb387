package xpkg

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Index returns an index of images, one for each platform, with annotations.
func Index(images []v1.Image, annotations map[string]string) (v1.ImageIndex, error) {
	seen := map[string]bool{}
	adds := make([]mutate.IndexAddendum, len(images))
	for i, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		platform := config.Platform()
		if platform == nil || platform.OS == "" || platform.Architecture == "" {
			return nil, fmt.Errorf("a package without a platform cannot be one of several: push it by itself")
		}
		if seen[platform.String()] {
			return nil, fmt.Errorf("two of the packages are for %s; an index has one for each platform", platform)
		}
		seen[platform.String()] = true
		mediaType, err := image.MediaType()
		if err != nil {
			return nil, err
		}
		adds[i] = mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{MediaType: mediaType, Platform: platform}}
	}
	index := mutate.AppendManifests(empty.Index, adds...)
	if len(annotations) == 0 {
		return index, nil
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex), nil
}
