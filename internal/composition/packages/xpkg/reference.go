package xpkg

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Reference is where a package is: registry.example.org/platform/network:v1.2.0, or with a digest, or with both. The texts are as they were
// written, because sources of packages are compared as texts.
type Reference struct {
	// Source is the registry and the repository, without tag and digest.
	Source string
	// Tag may be empty, and so may Digest, as "sha256:" and 64 hexadecimal digits.
	Tag, Digest string
}

// ParseReference parses a reference. There is no default registry, and no default tag: a reference may have neither tag nor digest.
func ParseReference(text string) (Reference, error) {
	r := Reference{Source: text}
	var hasDigest, hasTag bool
	r.Source, r.Digest, hasDigest = strings.Cut(r.Source, "@")
	if i := strings.LastIndexByte(r.Source, ':'); i > strings.LastIndexByte(r.Source, '/') {
		hasTag = true
		r.Source, r.Tag = r.Source[:i], r.Source[i+1:]
	}
	if err := r.check(hasTag, hasDigest); err != nil {
		return Reference{}, fmt.Errorf("the reference %q: %w", text, err)
	}
	return r, nil
}

func (r Reference) check(hasTag, hasDigest bool) error {
	registry, _, hasPath := strings.Cut(r.Source, "/")
	if !hasPath || !strings.ContainsAny(registry, ".:") && registry != "localhost" {
		return errors.New("it must begin with a registry and have a path, as in registry.example.org/platform/network:v1.2.0")
	}
	repository, err := name.NewRepository(r.Source, name.StrictValidation)
	if err != nil {
		return err
	}
	if hasTag {
		if _, err := name.NewTag(repository.Name()+":"+r.Tag, name.StrictValidation); err != nil {
			return err
		}
	}
	if hasDigest {
		if hash, err := v1.NewHash(r.Digest); err != nil || hash.Algorithm != "sha256" {
			return fmt.Errorf("%q is not a digest: it must be sha256: and 64 hexadecimal digits", r.Digest)
		}
	}
	return nil
}

// Version is the digest if there is one, because it decides what is fetched; otherwise the tag.
func (r Reference) Version() string {
	if r.Digest != "" {
		return r.Digest
	}
	return r.Tag
}

// WithDigest is the reference of the same source by a digest.
func (r Reference) WithDigest(digest string) Reference {
	return Reference{Source: r.Source, Digest: digest}
}

// String is the reference as it is written.
func (r Reference) String() string {
	text := r.Source
	if r.Tag != "" {
		text += ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}
