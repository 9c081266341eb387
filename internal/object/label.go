package object

import "strings"

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
	if len(value) > 63 {
		value = value[:52] + "-" + Digest(text)[:10]
	}
	return strings.Trim(value, "-_.")
}
