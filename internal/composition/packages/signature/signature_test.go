package signature_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/packages/signature"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func payload(digest string) []byte {
	return []byte(`{"critical":{"identity":{"docker-reference":"registry.example.org/team/a"},"image":{"docker-manifest-digest":"` + digest +
		`"},"type":"cosign container image signature"},"optional":null}`)
}

func sign(t *testing.T, key crypto.Signer, text []byte) []byte {
	t.Helper()
	sum, options := sha256.Sum256(text), crypto.SignerOpts(crypto.SHA256)
	signed := sum[:]
	if _, is := key.(ed25519.PrivateKey); is {
		signed, options = text, crypto.Hash(0)
	}
	out, err := key.Sign(rand.Reader, signed, options)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// envelope is a signed statement.
func envelope(t *testing.T, key crypto.Signer, predicate, digest string) []byte {
	t.Helper()
	const kind = "application/vnd.in-toto+json"
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v1","predicateType":"` + predicate + `","subject":[{"name":"a","digest":{"sha256":"` +
		strings.TrimPrefix(digest, "sha256:") + `"}}],"predicate":{}}`)
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(statement), statement)
	raw, err := json.Marshal(map[string]any{"payloadType": kind, "payload": statement, "signatures": []any{map[string]any{"sig": sign(t, key, signed)}}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestVerify(t *testing.T) {
	ours, theirs := newKey(t), newKey(t)
	other := "sha256:" + strings.Repeat("b", 64)
	signed := func(key crypto.Signer, of string) signature.Found {
		return signature.Found{Payloads: []signature.Payload{{Text: payload(of), Signature: sign(t, key, payload(of))}}}
	}
	attested := func(key crypto.Signer, predicate, of string) signature.Found {
		return signature.Found{Envelopes: [][]byte{envelope(t, key, predicate, of)}}
	}
	const sbom, signs = "https://spdx.dev/Document", "https://sigstore.dev/cosign/sign/v1"
	altered := signed(ours, digest)
	altered.Payloads[0].Text = append([]byte(" "), altered.Payloads[0].Text...)
	moved := attested(ours, sbom, other)
	moved.Envelopes[0] = []byte(strings.Replace(string(moved.Envelopes[0]), "in-toto", "other", 1))
	for name, tc := range map[string]struct {
		found      signature.Found
		predicates []string
		valid      bool
	}{
		"signed":                                    {signed(ours, digest), nil, true},
		"signed as a statement":                     {attested(ours, signs, digest), nil, true},
		"signed by the second of two":               {signature.Found{Payloads: append(signed(theirs, digest).Payloads, signed(ours, digest).Payloads...)}, nil, true},
		"signed by another key":                     {signed(theirs, digest), nil, false},
		"signed as a statement by another key":      {attested(theirs, signs, digest), nil, false},
		"not signed":                                {signature.Found{}, nil, false},
		"the signature is that of another image":    {signed(ours, other), nil, false},
		"the statement is about another image":      {attested(ours, signs, other), nil, false},
		"the payload was altered":                   {altered, nil, false},
		"the type of the statement was altered":     {moved, []string{sbom}, false},
		"the text is not in the format":             {signature.Found{Payloads: []signature.Payload{{Text: []byte("{}"), Signature: sign(t, ours, []byte("{}"))}}}, nil, false},
		"attested, and a signature is wanted":       {attested(ours, sbom, digest), nil, false},
		"signed, and an attestation is wanted":      {signed(ours, digest), []string{"spdx"}, false},
		"attested by cosign's name":                 {attested(ours, sbom, digest), []string{"slsaprovenance", "spdx"}, true},
		"attested by the type":                      {attested(ours, sbom, digest), []string{sbom}, true},
		"attested with another type":                {attested(ours, sbom, digest), []string{"vuln"}, false},
		"attested by another key":                   {attested(theirs, sbom, digest), []string{"spdx"}, false},
		"an envelope that is none":                  {signature.Found{Envelopes: [][]byte{[]byte("null"), []byte("{")}}, nil, false},
		"the attestation of a statement is ignored": {attested(ours, signs, digest), []string{"custom"}, false},
	} {
		err := signature.Verify(digest, []signature.Authority{{Name: "team", Key: ours.Public(), Predicates: tc.predicates}}, tc.found)
		if (err == nil) != tc.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := signature.Verify(digest, []signature.Authority{{Name: "them", Key: theirs.Public()}, {Name: "us", Key: ours.Public()}}, signed(ours, digest)); err != nil {
		t.Errorf("one authority is enough: %v", err)
	}
}

func TestKindsOfKeys(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"ECDSA": newKey(t), "RSA": long, "Ed25519": ed} {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		read, err := signature.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found := signature.Found{Payloads: []signature.Payload{{Text: payload(digest), Signature: sign(t, key, payload(digest))}}}
		if err := signature.Verify(digest, []signature.Authority{{Key: read}}, found); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{"no key": "", "no PEM": "hello", "another block": "-----BEGIN X-----\naGVsbG8=\n-----END X-----\n"} {
		if _, err := signature.ParseKey([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
