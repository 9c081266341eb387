package preview

import (
	"strings"
	"unicode/utf8"
)

// Wrap writes words in lines of at most width characters. The first begins with the prefix, the
// others are indented by its width.
func Wrap(b *strings.Builder, prefix string, words []string, width int) {
	line, indent := prefix, strings.Repeat(" ", utf8.RuneCountInString(prefix))
	empty := true
	flush := func() { b.WriteString(strings.TrimRight(strings.ReplaceAll(line, "\u00a0", " "), " ") + "\n") }
	for _, word := range words {
		if !empty && width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			flush()
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	flush()
}
