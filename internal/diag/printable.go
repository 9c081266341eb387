package diag

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns a text on one line and without control characters, so a foreign text, such as a webhook's message,
// neither controls a terminal nor looks like several messages. Runs of line breaks and tabs become one space; invalid
// UTF-8 and other characters without a glyph, including the ones that change the direction of text, are escaped as in
// Go: \x1b. A text that is printable stays the same.
func Printable(text string) string { return printable(text, false) }

func printable(text string, lines bool) string {
	if isPrintable(text, lines) {
		return text
	}
	var b strings.Builder
	inBreak := false
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		isBreak := false
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsGraphic(r), lines && r == '\n':
			b.WriteRune(r)
		case unicode.IsSpace(r):
			isBreak = true
			if !inBreak {
				b.WriteByte(' ')
			}
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		inBreak = isBreak
		i += size
	}
	return b.String()
}

func isPrintable(text string, lines bool) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsGraphic(r) && (!lines || r != '\n')
	}) < 0
}
