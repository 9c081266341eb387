package resourcetype

import (
	"strings"
	"unicode/utf8"
)

// Shorten returns a description with at most a number of bytes and without superfluous white space. A longer
// one ends after a sentence, or if there is none, after a word and with an ellipsis.
func Shorten(description string, limit int) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(description, "")), " ")
	if len(text) <= limit {
		return text
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	text = text[:cut]
	if end := strings.LastIndex(text, ". "); end > limit/3 {
		return text[:end+1]
	}
	if end := strings.LastIndexByte(text, ' '); end > 0 {
		text = text[:end]
	}
	return text + "…"
}
