package diag

import (
	"strings"
	"unicode/utf8"
)

// Wrap writes words in lines of at most width characters, unless a word is longer; a width of 0 means no limit. The
// first line begins with first, the rest with rest. A no-break space keeps words together, and is written as a space.
func Wrap(b *strings.Builder, first, rest string, words []string, width int) {
	line, empty := first, true
	flush := func() { b.WriteString(strings.TrimRight(strings.ReplaceAll(line, "\u00a0", " "), " ") + "\n") }
	for _, word := range words {
		if !empty && width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			flush()
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	flush()
}

// WrapHanging is Wrap with the lines after the first indented by the width of the prefix.
func WrapHanging(b *strings.Builder, prefix string, words []string, width int) {
	Wrap(b, prefix, strings.Repeat(" ", utf8.RuneCountInString(prefix)), words, width)
}

// WrapAdvice is WrapHanging for what a user can do. If it does not fit on one line, a command of kubectl or espalier at
// its end, or at its beginning up to a semicolon, gets its own line and is never wrapped, so it can be copied.
func WrapAdvice(b *strings.Builder, bullet, text string, width int) {
	words := strings.Fields(text)
	text = strings.Join(words, " ")
	if width <= 0 || utf8.RuneCountInString(bullet+text) <= width {
		WrapHanging(b, bullet, words, width)
		return
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(bullet))
	if isCommand(text) {
		command, rest, _ := strings.Cut(text, "; ")
		b.WriteString(bullet + command)
		if rest != "" {
			b.WriteString(";\n")
			WrapAdvice(b, indent, rest, width)
			return
		}
		b.WriteString("\n")
		return
	}
	if at := max(strings.LastIndex(text, ": kubectl "), strings.LastIndex(text, ": espalier ")); at >= 0 {
		WrapHanging(b, bullet, strings.Fields(text[:at+1]), width)
		b.WriteString(indent + text[at+2:] + "\n")
		return
	}
	WrapHanging(b, bullet, words, width)
}

func isCommand(text string) bool {
	return strings.HasPrefix(text, "kubectl ") || strings.HasPrefix(text, "espalier ")
}

// WrapLines wraps the lines of a text that are longer than width, a width of 0 meaning no limit. What follows the first line of one is
// indented by two more than it is.
func WrapLines(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		content, ended := strings.CutSuffix(line, "\n")
		if utf8.RuneCountInString(content) <= width {
			b.WriteString(line)
			continue
		}
		indent := content[:len(content)-len(strings.TrimLeft(content, " "))]
		var wrapped strings.Builder
		Wrap(&wrapped, indent, indent+"  ", strings.Fields(content), width)
		if ended {
			b.WriteString(wrapped.String())
		} else {
			b.WriteString(strings.TrimSuffix(wrapped.String(), "\n"))
		}
	}
	return b.String()
}
