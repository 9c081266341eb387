package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	remotetransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// Client fetches packages, and pushes them.
type Client struct {
	transport *transport
	cache     *Cache
}

// New returns a client that stores what it fetches in a cache. One that only pushes needs none.
func New(o Options, cache *Cache) (*Client, error) {
	t, err := newTransport(o)
	if err != nil {
		return nil, err
	}
	return &Client{transport: t, cache: cache}, nil
}

// Request is what to fetch.
type Request struct {
	// Reference is where it is. It needs a tag or a digest.
	Reference xpkg.Reference
	// Policy is when the registry is asked: Never; IfNotPresent, once for each tag; or Always, for the digest of the tag. What has a digest is fetched
	// once with all of them, because it never changes. Empty is IfNotPresent.
	Policy corev1.PullPolicy
	// Keychain has the credentials; nil is none.
	Keychain authn.Keychain
}

// Fetched is a package.
type Fetched struct {
	// Digest identifies the package. It is the digest of its image or index.
	Digest v1.Hash
	// Stream is its YAML stream.
	Stream []byte
	// Manifest describes the index, or the image.
	Manifest Manifest
	// Image is the image that the stream is from.
	Image v1.Image
}

// Manifest is what a reference refers to.
type Manifest struct {
	MediaType string
	// Platforms are the platforms in an index; empty for an image.
	Platforms []string
}

// Fetch returns a package. Of an image that contains a runtime, only the layer with the stream is fetched.
func (c *Client) Fetch(ctx context.Context, r Request) (*Fetched, error) {
	s, err := c.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	out, err := s.fetch()
	return out, explain(r.Reference, err)
}

func (s *session) fetch() (*Fetched, error) {
	digest, m, err := s.resolve()
	if err != nil {
		return nil, err
	}
	out := &Fetched{Digest: digest, Manifest: Manifest{MediaType: string(m.MediaType)}}
	for _, d := range m.Manifests {
		if d.Platform != nil && d.MediaType.IsImage() && d.Platform.OS != "unknown" {
			out.Manifest.Platforms = append(out.Manifest.Platforms, d.Platform.String())
		}
	}
	if out.Image, err = s.image(digest, m, nil); err == nil {
		out.Stream, err = xpkg.Stream(out.Image)
	}
	return out, err
}

// Image returns the image for a platform, which the package runs, and the digest of the package. Its layers are fetched when they are read,
// within the context, and stored in the cache.
func (c *Client) Image(ctx context.Context, r Request, platform v1.Platform) (v1.Image, v1.Hash, error) {
	s, err := c.begin(ctx, r)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	digest, m, err := s.resolve()
	if err != nil {
		return nil, v1.Hash{}, explain(r.Reference, err)
	}
	image, err := s.image(digest, m, &platform)
	return image, digest, explain(r.Reference, err)
}

// Tags returns the tags of the repository of a reference.
func (c *Client) Tags(ctx context.Context, r Request) ([]string, error) {
	s, err := c.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	lister, err := s.puller.Lister(ctx, s.repository)
	var out []string
	for err == nil && lister.HasNext() {
		var page *remote.Tags
		if page, err = lister.Next(ctx); err == nil {
			out = append(out, page.Tags...)
		}
		if err == nil && len(out) > maxTags {
			err = fmt.Errorf("the repository has more than %d tags", maxTags)
		}
	}
	return out, explain(r.Reference, err)
}

// session is one call of the client.
type session struct {
	*Client
	Request
	ctx        context.Context
	repository name.Repository
	puller     *remote.Puller
}

func (c *Client) begin(ctx context.Context, r Request) (*session, error) {
	repository, err := c.repository(r.Reference)
	if err != nil {
		return nil, err
	}
	puller, err := remote.NewPuller(c.options(ctx, r.Keychain, true)...)
	return &session{c, r, ctx, repository, puller}, err
}

func (c *Client) repository(r xpkg.Reference) (name.Repository, error) {
	options := []name.Option{name.StrictValidation}
	repository, err := name.NewRepository(r.Source, options...)
	if err != nil {
		return repository, err
	}
	if registry := repository.RegistryStr(); c.transport.insecure[registry] || c.transport.insecure[hostOf(registry)] {
		repository, err = name.NewRepository(r.Source, append(options, name.Insecure)...)
	}
	return repository, err
}

func (c *Client) options(ctx context.Context, keychain authn.Keychain, once bool) []remote.Option {
	if keychain == nil {
		keychain = authn.NewMultiKeychain()
	}
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(c.transport), remote.WithAuthFromKeychain(keychain),
		remote.WithRetryStatusCodes(), // the transport sends requests again
	}
	if once {
		options = append(options, remote.WithRetryBackoff(remote.Backoff{Steps: 1}))
	}
	return options
}

// resolve returns the digest of the reference and its manifest.
func (s *session) resolve() (v1.Hash, *manifest, error) {
	digest, err := s.digest()
	if err != nil {
		return digest, nil, err
	}
	raw, err := s.manifest(digest)
	if err != nil {
		return digest, nil, err
	}
	m, err := parseManifest(raw)
	return digest, m, err
}

func (s *session) digest() (v1.Hash, error) {
	r := s.Reference
	switch {
	case r.Digest != "":
		return v1.NewHash(r.Digest)
	case r.Tag == "":
		return v1.Hash{}, errors.New("it has neither a tag nor a digest")
	}
	if s.Policy != corev1.PullAlways {
		digest, err := s.cache.Tag(r.String())
		if err == nil || s.Policy == corev1.PullNever {
			return digest, err
		}
	}
	tag := s.repository.Tag(r.Tag)
	var digest v1.Hash
	described, err := s.puller.Head(s.ctx, tag)
	if err == nil {
		digest = described.Digest
	} else if headRefused(err) {
		var got *remote.Descriptor
		if got, err = s.puller.Get(s.ctx, tag); err == nil {
			digest = got.Digest
		}
	}
	if err != nil {
		return digest, err
	}
	return digest, s.cache.SetTag(r.String(), digest)
}

// headRefused reports whether a registry may answer to GET instead. The answer to HEAD has no error that says why.
func headRefused(err error) bool {
	var refused *remotetransport.Error
	return !errors.As(err, &refused) || refused.StatusCode < 500
}

// manifest returns a manifest by its digest, from the cache or from the registry.
func (s *session) manifest(digest v1.Hash) ([]byte, error) {
	if raw, err := s.cached(digest); err == nil || !s.mayAsk(err) {
		return raw, err
	}
	got, err := s.puller.Get(s.ctx, s.repository.Digest(digest.String())) // which checks its digest, and bounds it
	if err != nil {
		return nil, err
	}
	return got.Manifest, s.cache.Put(digest, int64(len(got.Manifest)), bytes.NewReader(got.Manifest))
}

// mayAsk reports whether what is not in the cache may be fetched.
func (s *session) mayAsk(err error) bool {
	return errors.Is(err, errNotCached) && s.Policy != corev1.PullNever
}

func (s *session) cached(digest v1.Hash) ([]byte, error) {
	f, err := s.cache.Open(digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// blob returns a configuration or a layer, from the cache or from the registry.
func (s *session) blob(d v1.Descriptor) (io.ReadCloser, error) {
	f, err := s.cache.Open(d.Digest)
	if err == nil || !s.mayAsk(err) {
		return f, err
	}
	for attempt := 1; ; attempt++ {
		err = s.download(d)
		if err == nil {
			return s.cache.Open(d.Digest)
		}
		if attempt == maxConnects || !isTransient(err) { // the transport does not repeat a request after a truncated answer
			return nil, err
		}
		if err := pause(s.ctx, backoff(attempt)); err != nil {
			return nil, err
		}
	}
}

func (s *session) download(d v1.Descriptor) error {
	layer, err := s.puller.Layer(s.ctx, s.repository.Digest(d.Digest.String()))
	if err != nil {
		return err
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	return s.cache.Put(d.Digest, d.Size, content)
}

func hostOf(registry string) string {
	if host, _, err := net.SplitHostPort(registry); err == nil {
		return host
	}
	return registry
}
