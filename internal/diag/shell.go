package diag

import (
	"fmt"
	"strings"
	"unicode"
)

// ShellWord is a text as one word of a command to copy: it is quoted unless a shell reads it as it is.
// Characters without a glyph are escaped, as they could end a paste or control the terminal.
func ShellWord(text string) string {
	switch {
	case !isPrintable(text, false) || strings.ContainsFunc(text, isOddSpace):
		return escapedWord(text)
	case text == "" || strings.ContainsFunc(text, isShellSpecial):
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

func isShellSpecial(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:=@%+,", r)
}

func isOddSpace(r rune) bool { return r != ' ' && unicode.IsSpace(r) }

// It quotes a text as Bash and other shells do in $'…', byte by byte where it cannot be shown.
func escapedWord(text string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
