package postgresql

import (
	"crypto/hmac"
	"crypto/md5" // of PostgreSQL's old verifiers; none is made here
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/text/secure/precis"
)

// How a verifier is made: RFC 7677 asks for 4096 rounds at least, which is also
// what PostgreSQL does by itself.
const (
	scramName   = "SCRAM-SHA-256"
	scramRounds = 4096
	scramSalt   = 16
	// mostRounds bounds what a verifier on a server can make this program compute.
	mostRounds = 1_000_000
)

// newVerifier is what the server stores in place of a password (RFC 5802): who sees
// it, in a log or on the way, can't log in with it.
func newVerifier(password string) (string, error) {
	salt := make([]byte, scramSalt)
	_, _ = rand.Read(salt) // never fails
	return verifier(password, salt, scramRounds)
}

func verifier(password string, salt []byte, rounds int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, prepared(password), salt, rounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive a verifier: %w", err)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", scramName, rounds, encode(salt), encode(stored[:]), encode(mac(salted, "Server Key"))), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// prepared is a password in the form in which it is compared (RFC 8265). What has
// no such form is taken as it is, as PostgreSQL does too.
func prepared(password string) string {
	if p, err := precis.OpaqueString.String(password); err == nil {
		return p
	}
	return password
}

// verifies says whether what a server stores for a role belongs to a password. An
// error says that it is of a kind that isn't known here.
func verifies(stored, role, password string) (bool, error) {
	switch {
	case stored == "":
		return false, nil
	case strings.HasPrefix(stored, "md5") && len(stored) == 3+2*md5.Size:
		sum := md5.Sum([]byte(password + role))
		return same(stored, "md5"+hex.EncodeToString(sum[:])), nil
	}
	fields := strings.FieldsFunc(stored, func(r rune) bool { return r == '$' || r == ':' })
	if len(fields) != 5 || fields[0] != scramName {
		return false, fmt.Errorf("the server stores a password in a form that isn't known here")
	}
	rounds, err := strconv.Atoi(fields[1])
	if err != nil || rounds < 1 || rounds > mostRounds {
		return false, fmt.Errorf("the server stores a password with %q rounds", fields[1])
	}
	salt, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return false, fmt.Errorf("the server stores a password with a salt that can't be read")
	}
	made, err := verifier(password, salt, rounds)
	return err == nil && same(stored, made), err
}

// same compares in a time that tells nothing.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// newPassword is a random password of 26 letters and digits, with 130 bits.
func newPassword() string { return rand.Text() }
