package registry

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"
)

// write stores an image with one layer, which is a text: under a tag, or as an artifact that refers to another image.
func (s *server) write(t *testing.T, repository, tag string, kind types.MediaType, text string, annotations map[string]string, artifact types.MediaType, subject *v1.Descriptor) {
	t.Helper()
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: static.NewLayer([]byte(text), kind), MediaType: kind, Annotations: annotations})
	if err != nil {
		t.Fatal(err)
	}
	image = mutate.MediaType(image, types.OCIManifestSchema1)
	if subject != nil {
		image = mutate.Subject(mutate.ConfigMediaType(image, artifact), *subject).(v1.Image) //nolint:forcetypeassert // of an image it is one
	}
	in, err := name.NewRepository(strings.TrimPrefix(s.URL, "https://") + "/" + repository)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	var to name.Reference = in.Digest(digest.String())
	if tag != "" {
		to = in.Tag(tag)
	}
	if err := remote.Write(to, image, remote.WithTransport(s.Client().Transport)); err != nil {
		t.Fatal(err)
	}
}

func TestSignaturesAreFound(t *testing.T) {
	s := newServer(t)
	digest := s.push(t, "team/network:v1", "network")
	cache := newCache(t)
	request := Request{Reference: s.ref(t, "team/network:v1"), Policy: corev1.PullIfNotPresent}
	none, err := s.client(t, cache).Signatures(t.Context(), request, digest)
	if err != nil || len(none.Payloads)+len(none.Envelopes) > 0 {
		t.Fatalf("nothing is signed: %+v, %v", none, err)
	}
	tag := "sha256-" + digest.Hex
	s.write(t, "team/network", tag+".sig", payloadType, "payload", map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString([]byte("signed"))}, "", nil)
	s.write(t, "team/network", tag+".att", envelopeType, "envelope", nil, "", nil)
	subject := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: 1}
	s.write(t, "team/network", "", bundleType, `{"dsseEnvelope":{"a":1}}`, nil, bundleType, &subject)
	s.write(t, "team/network", "", bundleType, `{"dsseEnvelope":{"b":1}}`, nil, emptyType, &subject)
	s.write(t, "team/network", "", "text/plain", "something else", nil, bundleType, &subject)
	found, err := s.client(t, cache).Signatures(t.Context(), request, digest)
	if err != nil || len(found.Payloads) != 1 || string(found.Payloads[0].Text) != "payload" || string(found.Payloads[0].Signature) != "signed" {
		t.Errorf("%s, %v", found.Payloads, err)
	}
	if got := string(bytes.Join(found.Envelopes, []byte(" "))); got != `envelope {"a":1} {"b":1}` {
		t.Errorf("the envelopes are %s", got)
	}

	s.setFault(func(http.ResponseWriter, *http.Request) bool { return false })
	request.Policy = corev1.PullNever
	if found, err := s.client(t, cache).Signatures(t.Context(), request, digest); err != nil || len(found.Payloads) != 1 || s.count("/v2") > 0 {
		t.Errorf("from the cache: %+v, %v, %d requests", found, err, s.count("/v2"))
	}
	request.Policy = corev1.PullAlways
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".sig") {
			w.WriteHeader(http.StatusForbidden)
		}
		return strings.HasSuffix(r.URL.Path, ".sig")
	})
	if _, err := s.client(t, cache).Signatures(t.Context(), request, digest); err == nil || errors.Is(err, errNotCached) {
		t.Errorf("what cannot be read is not missing: %v", err)
	}
}
