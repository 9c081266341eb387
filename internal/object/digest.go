package object

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Digest returns a short, stable name for a value's content: equal JSON gives
// equal digests, whatever the order of map keys. The result is 32 lower-case
// hexadecimal digits (128 bits of SHA-256) and is a valid label value.
//
// It panics on values that JSON cannot encode, which decoded objects never contain.
func Digest(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("object.Digest: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}
