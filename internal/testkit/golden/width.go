package golden

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// CheckWidth fails the test if a line of a text has more than width characters, unless it is a word that cannot be broken or a command,
// which is kept on one line so that it can be copied.
func CheckWidth(tb testing.TB, name, text string, width int) {
	tb.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		content := strings.TrimLeft(line, " -")
		isWhole := !strings.Contains(content, " ") || strings.HasPrefix(content, "kubectl ") || strings.HasPrefix(content, "espalier ")
		if n := utf8.RuneCountInString(line); n > width && !isWhole {
			tb.Errorf("%s: a line has %d characters, more than %d: %s", name, n, width, line)
		}
	}
}
