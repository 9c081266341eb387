// Package signature verifies cosign's signatures and attestations of images with public keys.
//
// Pure: it decides from values alone.
package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Authority is who may have signed.
type Authority struct {
	Name string
	Key  crypto.PublicKey
	// Predicates are the types of the attestations of which it must have signed one; without any, it must have signed the image.
	Predicates []string
}

// Found is what a registry has about an image. All of it is untrusted.
type Found struct {
	// Payloads are signed texts about the image.
	Payloads []Payload
	// Envelopes are signed statements about it, each a DSSE envelope in JSON.
	Envelopes [][]byte
}

// Payload is a text with its signature.
type Payload struct{ Text, Signature []byte }

// ParseKey reads a public key in PEM: ECDSA, RSA of at least 2048 bits, or Ed25519.
func ParseKey(text []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is not a public key in PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it is not a public key: %w", err)
	}
	const minBits = 2048
	switch k := key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if k.N.BitLen() < minBits {
			return nil, fmt.Errorf("an RSA key must have at least %d bits, not %d", minBits, k.N.BitLen())
		}
	default:
		return nil, fmt.Errorf("keys of the type %T are not supported", key)
	}
	return key, nil
}

// Verify returns an error unless one of the authorities has signed the image with a digest.
func Verify(digest string, authorities []Authority, f Found) error {
	var names []string
	for _, a := range authorities {
		if a.verifies(digest, f) {
			return nil
		}
		names = append(names, a.Name)
	}
	return fmt.Errorf("no valid signature of %s by %s: the registry has %d signatures and %d attestations", digest, strings.Join(names, " or "),
		len(f.Payloads), len(f.Envelopes))
}

// signPredicate is the type of the statement that cosign 3 signs instead of a payload.
const signPredicate = "https://sigstore.dev/cosign/sign/v1"

func (a Authority) verifies(digest string, f Found) bool {
	wanted := a.Predicates
	if len(wanted) == 0 {
		wanted = []string{signPredicate}
		for _, p := range f.Payloads {
			if isSigned(a.Key, p.Text, p.Signature) && isPayloadFor(p.Text, digest) {
				return true
			}
		}
	}
	return slices.ContainsFunc(f.Envelopes, func(raw []byte) bool {
		predicate := a.predicateOf(raw, digest)
		return predicate != "" && slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(typesOf(w), predicate) })
	})
}

func isSigned(key crypto.PublicKey, text, signature []byte) bool {
	sum := sha256.Sum256(text)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(k, text, signature)
	}
	return false
}

// isPayloadFor reports whether a payload in the format "simple signing" is about the image. The name of the image in it does not
// count: mirrors have another one.
func isPayloadFor(text []byte, digest string) bool {
	var p struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	return json.Unmarshal(text, &p) == nil && p.Critical.Type == "cosign container image signature" && p.Critical.Image.Digest == digest
}

// predicateOf returns the type of the signed statement about the image in an envelope; "" if there is none that the authority has signed.
func (a Authority) predicateOf(raw []byte, digest string) string {
	var e struct {
		PayloadType string `json:"payloadType"`
		Payload     []byte `json:"payload"`
		Signatures  []struct {
			Sig []byte `json:"sig"`
		} `json:"signatures"`
	}
	const statementType = "application/vnd.in-toto+json"
	if json.Unmarshal(raw, &e) != nil || e.PayloadType != statementType {
		return ""
	}
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
	for _, s := range e.Signatures[:min(len(e.Signatures), maxSignatures)] {
		if !isSigned(a.Key, signed, s.Sig) {
			continue
		}
		var statement struct {
			PredicateType string `json:"predicateType"`
			Subject       []struct {
				Digest map[string]string `json:"digest"`
			} `json:"subject"`
		}
		if json.Unmarshal(e.Payload, &statement) != nil {
			return ""
		}
		for _, subject := range statement.Subject {
			if "sha256:"+subject.Digest["sha256"] == digest {
				return statement.PredicateType
			}
		}
	}
	return ""
}

// maxSignatures bounds the signatures of an envelope that are verified.
const maxSignatures = 16

// typesOf are the predicate types that a name of cosign's means, or the type itself.
func typesOf(name string) []string {
	types := map[string][]string{
		"custom":         {"https://cosign.sigstore.dev/attestation/v1"},
		"slsaprovenance": {"https://slsa.dev/provenance/v0.2"}, "slsaprovenance02": {"https://slsa.dev/provenance/v0.2"},
		"slsaprovenance1": {"https://slsa.dev/provenance/v1"},
		"spdx":            {"https://spdx.dev/Document"}, "spdxjson": {"https://spdx.dev/Document"},
		"cyclonedx": {"https://cyclonedx.org/bom"},
		"link":      {"https://in-toto.io/Link/v1"},
		"vuln":      {"https://cosign.sigstore.dev/attestation/vuln/v1"},
		"openvex":   {"https://openvex.dev/ns", "https://openvex.dev/ns/v0.2.0"},
	}
	if all, known := types[name]; known {
		return all
	}
	return []string{name}
}
