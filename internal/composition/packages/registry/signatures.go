package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	remotetransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/composition/packages/signature"
)

// How cosign stores what is signed about an image: in images with tags that name its digest, or as artifacts that refer to it.
const (
	payloadType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	envelopeType = "application/vnd.dsse.envelope.v1+json"
	bundleType   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// emptyType is the type of the artifacts of cosign 2 in a registry without an API for referrers: there, the index is written by
	// the client, with the type of the empty configuration.
	emptyType = "application/vnd.oci.empty.v1+json"
	// signatureAnnotation is on a layer with a payload.
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

// Signatures returns what the registry has about an image, unverified. With the policy Never it is what the cache has.
func (c *Client) Signatures(ctx context.Context, r Request, digest v1.Hash) (out signature.Found, err error) {
	if r.Policy != corev1.PullNever {
		r.Policy = corev1.PullAlways // signatures are added later
	}
	for _, suffix := range []string{".sig", ".att"} {
		of := r
		of.Reference.Tag, of.Reference.Digest = digest.Algorithm+"-"+digest.Hex+suffix, ""
		if err := c.addLayers(ctx, of, &out); err != nil {
			return out, explain(of.Reference, err)
		}
	}
	s, err := c.begin(ctx, r)
	if err == nil && r.Policy != corev1.PullNever {
		err = s.addReferrers(digest, &out)
	}
	return out, explain(r.Reference, err)
}

// addLayers adds what the layers of an image contain. There may be no such image.
func (c *Client) addLayers(ctx context.Context, r Request, out *signature.Found) error {
	s, err := c.begin(ctx, r)
	if err != nil {
		return err
	}
	_, m, err := s.resolve()
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(m.Layers) > maxSigned {
		return fmt.Errorf("it has %d signatures, more than the %d that are read", len(m.Layers), maxSigned)
	}
	for _, layer := range m.Layers {
		if layer.MediaType != payloadType && layer.MediaType != envelopeType {
			continue
		}
		text, err := s.small(layer)
		if err != nil {
			return err
		}
		if layer.MediaType == envelopeType {
			out.Envelopes = append(out.Envelopes, text)
			continue
		}
		signed, err := base64.StdEncoding.DecodeString(layer.Annotations[signatureAnnotation])
		if err == nil {
			out.Payloads = append(out.Payloads, signature.Payload{Text: text, Signature: signed})
		}
	}
	return nil
}

func isMissing(err error) bool {
	var refused *remotetransport.Error
	return errors.Is(err, errNotCached) || errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound
}

// small reads a layer of limited size.
func (s *session) small(layer v1.Descriptor) ([]byte, error) {
	if layer.Size > maxSignedText {
		return nil, fmt.Errorf("a signature has %d bytes, more than the %d that are allowed", layer.Size, maxSignedText)
	}
	content, err := s.blob(layer)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}

// addReferrers adds the envelopes of bundles that refer to an image.
func (s *session) addReferrers(digest v1.Hash, out *signature.Found) error {
	index, err := remote.Referrers(s.repository.Digest(digest.String()), s.options(s.ctx, s.Keychain, true)...)
	if err != nil {
		if isMissing(err) {
			return nil
		}
		return err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return err
	}
	artifacts := slices.DeleteFunc(list.Manifests, func(d v1.Descriptor) bool { return d.ArtifactType != bundleType && d.ArtifactType != emptyType })
	if len(artifacts) > maxSigned {
		return fmt.Errorf("%d artifacts refer to the image, more than the %d that are read", len(artifacts), maxSigned)
	}
	for _, d := range artifacts {
		raw, err := s.manifest(d.Digest)
		if err != nil {
			return err
		}
		m, err := parseManifest(raw)
		if err != nil || len(m.Layers) != 1 || m.Layers[0].MediaType != bundleType {
			continue // another kind of artifact
		}
		text, err := s.small(m.Layers[0])
		if err != nil {
			return err
		}
		var bundle struct {
			Envelope json.RawMessage `json:"dsseEnvelope"`
		}
		if json.Unmarshal(text, &bundle) == nil && len(bytes.TrimSpace(bundle.Envelope)) > 0 {
			out.Envelopes = append(out.Envelopes, bundle.Envelope)
		}
	}
	return nil
}
