package object

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// LabelValue turns a text into a valid label value: at most 63 characters of the allowed
// alphabet. A longer text is truncated and ends with a digest.
func LabelValue(text string) string {
	value := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, text) // which copies nothing that stays the same
	if len(value) > content.LabelValueMaxLength {
		value = value[:52] + "-" + Digest(text)[:10]
	}
	return strings.Trim(value, "-_.")
}

// HashPrefix begins the values of HashedLabelValue that are hashes.
const HashPrefix = "h-"

// HashedLabelValue is LabelValue in the form of the graph dialect, in which a text that is too long becomes a hash.
func HashedLabelValue(text string) string {
	if len(text) <= content.LabelValueMaxLength {
		return LabelValue(text)
	}
	sum := sha256.Sum256([]byte(text))
	return HashPrefix + hex.EncodeToString(sum[:20])
}
