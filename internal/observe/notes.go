package observe

import (
	"strings"
	"unicode/utf8"
)

// Notes are, in full, the texts that a table of the given width has cut: for each row a
// line that names it, and below it what it says, no line longer than the width.
func Notes(rows []Row, width int) []string {
	if width <= 0 {
		return nil
	}
	whole, table := uncut(rows, width), Cells(rows, width)
	var out []string
	for i, r := range rows {
		last := len(table[i+1]) - 1
		text := strings.Join(strings.Fields(whole[i+1][last]), " ")
		if text == table[i+1][last] {
			continue
		}
		name := strings.TrimSpace(r.Kind + " " + r.called())
		if r.Reason != "" {
			name += ": " + r.Reason
		}
		out = append(append(out, Cut(name, width)), Wrap(text, "  ", width)...)
	}
	return out
}

// Wrap breaks a text between words into lines that begin with an indent; words that are
// longer than a line, anywhere.
func Wrap(text, indent string, width int) []string {
	room := max(width-utf8.RuneCountInString(indent), 1)
	var out []string
	line := ""
	flush := func() {
		if line != "" {
			out = append(out, indent+line)
			line = ""
		}
	}
	for _, word := range strings.Fields(text) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			flush()
		}
		for utf8.RuneCountInString(word) > room {
			runes := []rune(word)
			out, word = append(out, indent+string(runes[:room])), string(runes[room:])
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	flush()
	return out
}
