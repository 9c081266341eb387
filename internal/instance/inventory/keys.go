package inventory

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Keys are the signing keys of an installation. The current one signs, all verify: so a key can be
// replaced while objects have signatures of the former one. The zero value signs and verifies nothing.
type Keys struct {
	current string
	// byID contains functions instead of keys, so printing Keys prints no key.
	byID map[string]func(message []byte) []byte
	// unsignedBefore is until when objects without signature are accepted: see Owner.Owns.
	unsignedBefore time.Time
}

// KeySize is the size of a new key in bytes. A key that an administrator adds may be longer.
const KeySize = sha256.Size

const (
	currentEntry = "current"
	maxKeySize   = 1024
	maxKeys      = 16
)

var keyID = regexp.MustCompile(`^[a-z0-9]{1,32}$`)

// NewKeys returns keys by their id. Objects that were created before unsignedBefore are accepted
// without signature.
func NewKeys(current string, byID map[string][]byte, unsignedBefore time.Time) (Keys, error) {
	k := Keys{current: current, byID: map[string]func([]byte) []byte{}, unsignedBefore: unsignedBefore}
	if len(byID) > maxKeys {
		return Keys{}, fmt.Errorf("it has %d keys; at most %d are possible", len(byID), maxKeys)
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		key := slices.Clone(byID[id])
		switch {
		case !keyID.MatchString(id):
			return Keys{}, errors.New("the id of a key can have lower-case letters and digits only, at most 32")
		case len(key) < KeySize || len(key) > maxKeySize:
			return Keys{}, fmt.Errorf("key %s has %d bytes; it must have at least %d and at most %d", id, len(key), KeySize, maxKeySize)
		}
		// A reconcile verifies the signatures of all children: preparing the key takes as long as hashing.
		prepared := sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
		k.byID[id] = func(message []byte) []byte {
			mac, _ := prepared.Get().(hash.Hash)
			defer prepared.Put(mac)
			mac.Reset()
			mac.Write(message)
			return mac.Sum(nil)
		}
	}
	if k.byID[current] == nil {
		return Keys{}, fmt.Errorf("its entry %q names none of its keys", currentEntry)
	}
	return k, nil
}

// IsZero reports whether there are no keys.
func (k Keys) IsZero() bool { return len(k.byID) == 0 }

func (k Keys) sign(message []byte) (id, signature string) {
	return k.current, base64.RawURLEncoding.EncodeToString(k.byID[k.current](message))
}

func (k Keys) verifies(message []byte, id, signature string) bool {
	mac, known := k.byID[id]
	if !known {
		return false
	}
	got, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	return err == nil && hmac.Equal(got, mac(message))
}

// An unknown id is well-formed, and not of any of these keys.
func (k Keys) isUnknown(id string) bool {
	_, known := k.byID[id]
	return !known && keyID.MatchString(id)
}

// SecretKind is the kind of the object that holds Keys.
var SecretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// NewKeySecret is the Secret with one new key.
func NewKeySecret(namespace string, key []byte) *unstructured.Unstructured {
	sum := sha256.Sum256(key)
	id := hex.EncodeToString(sum[:4])
	encode := base64.StdEncoding.EncodeToString
	o := &unstructured.Unstructured{Object: map[string]any{
		"type": "Opaque",
		"data": map[string]any{currentEntry: encode([]byte(id)), id: encode(key)},
	}}
	o.SetGroupVersionKind(SecretKind)
	o.SetNamespace(namespace)
	o.SetName(v1alpha1.SigningKeySecret)
	return o
}

// KeysOf reads the keys in a Secret. Each entry of its data is a key with its id, except for the
// entry "current", which is the id of the key that signs. No error contains a key.
func KeysOf(secret *unstructured.Unstructured) (Keys, error) {
	data, _, err := unstructured.NestedStringMap(secret.Object, "data")
	if err != nil {
		return Keys{}, errors.New("its data is malformed")
	}
	byID := map[string][]byte{}
	for id, text := range data {
		if byID[id], err = base64.StdEncoding.DecodeString(text); err != nil {
			return Keys{}, errors.New("its data is not base64")
		}
	}
	current := string(byID[currentEntry])
	delete(byID, currentEntry)
	before := secret.GetCreationTimestamp().Time
	switch text := secret.GetAnnotations()[v1alpha1.UnsignedBeforeAnnotation]; text {
	case "":
	case v1alpha1.UnsignedNever:
		before = time.Time{}
	default:
		if before, err = time.Parse(time.RFC3339, text); err != nil {
			return Keys{}, fmt.Errorf("its annotation %s is neither %q nor a time such as 2026-08-01T12:00:00Z",
				v1alpha1.UnsignedBeforeAnnotation, v1alpha1.UnsignedNever)
		}
	}
	return NewKeys(current, byID, before)
}
