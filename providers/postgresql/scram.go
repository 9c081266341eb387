package postgresql

import (
	"crypto/hmac"
	"crypto/md5" // for old verifiers of PostgreSQL; new ones use SCRAM
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

// Parameters of verifiers. RFC 7677 requires at least 4096 iterations, which is also
// PostgreSQL's default.
const (
	scramName       = "SCRAM-SHA-256"
	scramIterations = 4096
	scramSalt       = 16
	// maxIterations limits the work that a verifier from a server can cause.
	maxIterations = 1_000_000
)

// newVerifier returns the verifier that the server stores instead of a password (RFC 5802). It
// can be sent and logged: it does not allow a login.
func newVerifier(password string) (string, error) {
	salt := make([]byte, scramSalt)
	_, _ = rand.Read(salt) // never fails
	return verifier(password, salt, scramIterations)
}

func verifier(password string, salt []byte, iterations int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, normalize(password), salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive a verifier: %w", err)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", scramName, iterations, encode(salt), encode(stored[:]), encode(mac(salted, "Server Key"))), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// normalize returns a password in the form that it is compared in (RFC 8265). As in PostgreSQL, an invalid one is not
// changed.
func normalize(password string) string {
	if p, err := precis.OpaqueString.String(password); err == nil {
		return p
	}
	return password
}

// It returns an error for an unknown kind of verifier.
func verifies(stored, role, password string) (bool, error) {
	switch {
	case stored == "":
		return false, nil
	case strings.HasPrefix(stored, "md5") && len(stored) == 3+2*md5.Size:
		sum := md5.Sum([]byte(password + role))
		return constantTimeEqual(stored, "md5"+hex.EncodeToString(sum[:])), nil
	}
	fields := strings.FieldsFunc(stored, func(r rune) bool { return r == '$' || r == ':' })
	if len(fields) != 5 || fields[0] != scramName {
		return false, fmt.Errorf("the server stores a password in an unknown form")
	}
	iterations, err := strconv.Atoi(fields[1])
	if err != nil || iterations < 1 || iterations > maxIterations {
		return false, fmt.Errorf("the server stores a password with an invalid number of iterations: %q", fields[1])
	}
	salt, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return false, fmt.Errorf("the server stores a password with an invalid salt")
	}
	computed, err := verifier(password, salt, iterations)
	return err == nil && constantTimeEqual(stored, computed), err
}

func constantTimeEqual(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// It has 26 letters and digits, with 130 bits.
func newPassword() string { return rand.Text() }
