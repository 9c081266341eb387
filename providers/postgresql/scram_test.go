package postgresql

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
)

// TestVerifierMatchesRFC7677 checks a verifier with the exchange of RFC 7677, section 3: it has to
// accept the client's proof, and to produce the server's signature.
func TestVerifierMatchesRFC7677(t *testing.T) {
	const (
		nonce     = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
		salt      = "W22ZaJ0SNY7soEsUEjb6gQ=="
		message   = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=" + nonce + ",s=" + salt + ",i=4096,c=biws,r=" + nonce
		proof     = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
		signature = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	)
	decode := func(text string) []byte {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	computed, err := verifier("pencil", decode(salt), 4096)
	if err != nil {
		t.Fatal(err)
	}
	prefix := "SCRAM-SHA-256$4096:" + salt + "$"
	keys, ok := strings.CutPrefix(computed, prefix)
	if !ok {
		t.Fatalf("got the verifier %s", computed)
	}
	stored, server, _ := strings.Cut(keys, ":")
	clientKey := mac(decode(stored), message)
	for i, b := range decode(proof) {
		clientKey[i] ^= b
	}
	if sum := sha256.Sum256(clientKey); !hmac.Equal(sum[:], decode(stored)) {
		t.Error("the client's proof is not accepted")
	}
	if got := base64.StdEncoding.EncodeToString(mac(decode(server), message)); got != signature {
		t.Errorf("got the server signature %s", got)
	}
}

func TestVerifies(t *testing.T) {
	const old = "md5a0c3a3ba1b1a01bc2d0d5c8ea8ed6a20"
	computed, err := newVerifier("pencil")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		stored, password string
		want, unknown    bool
	}{
		"the same password":      {stored: computed, password: "pencil", want: true},
		"another password":       {stored: computed, password: "pencils"},
		"no verifier":            {stored: "", password: "pencil"},
		"MD5, another password":  {stored: old, password: "pencil"},
		"MD5, the same password": {stored: "md520c46e3762c864548e296b33c3406aa9", password: "pencil", want: true},
		"an unknown form":        {stored: "SCRAM-SHA-512$1:a$b:c", password: "pencil", unknown: true},
		"too many iterations":    {stored: "SCRAM-SHA-256$99999999:YQ==$YQ==:YQ==", password: "pencil", unknown: true},
		"an invalid salt":        {stored: "SCRAM-SHA-256$4096:?$YQ==:YQ==", password: "pencil", unknown: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := verifies(tc.stored, "user", tc.password)
			if got != tc.want || (err != nil) != tc.unknown {
				t.Errorf("got %t, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), tc.password) {
				t.Errorf("the error contains the password")
			}
		})
	}
}

func TestVerifiersAndPasswordsAreRandom(t *testing.T) {
	a, _ := newVerifier("pencil")
	b, _ := newVerifier("pencil")
	if a == b {
		t.Error("two verifiers have the same salt")
	}
	if one, other := newPassword(), newPassword(); one == other || len(one) < 26 {
		t.Errorf("got the same password twice, or one of %d characters", len(one))
	}
}
