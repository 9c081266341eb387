package observe

import (
	"strings"
	"unicode/utf8"
)

// Notes returns in full the texts that a table of the given width truncates: for each row a
// line with its name, and below it the text, wrapped to the width.
func Notes(rows []Row, width int) []string {
	if width <= 0 {
		return nil
	}
	full, table := fullCells(rows, width), Cells(rows, width)
	var out []string
	for i, r := range rows {
		last := len(table[i+1]) - 1
		text := strings.Join(strings.Fields(full[i+1][last]), " ")
		if text == table[i+1][last] {
			continue
		}
		name := strings.TrimSpace(r.Kind + " " + r.displayName())
		if r.Reason != "" {
			name += ": " + r.Reason
		}
		out = append(append(out, Truncate(name, width)), Wrap(text, "  ", width)...)
	}
	return out
}

// Wrap breaks a text into indented lines of at most width characters: between words, or
// within a word that is longer than a line.
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
