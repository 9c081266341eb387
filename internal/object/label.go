package object

import "strings"

// LabelValue turns a text into a valid label value: at most 63 characters of the allowed
// alphabet. A longer text is truncated and ends with a digest.
func LabelValue(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	value := b.String()
	if len(value) > 63 {
		value = value[:52] + "-" + Digest(text)[:10]
	}
	return strings.Trim(value, "-_.")
}
