package observe

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Text is a table of rows and, with a width other than 0, below it what the table truncates.
func Text(rows []Row, width int) string {
	text := Table(rows, width)
	if notes := Notes(rows, width); len(notes) > 0 {
		text += "\n" + strings.Join(notes, "\n") + "\n"
	}
	return text
}

// Notes returns in full the names and texts that a table of the given width truncates: for each
// row a line with its name, and below it the text, wrapped to the width.
func Notes(rows []Row, width int) []string {
	if width <= 0 {
		return nil
	}
	return notes(fullCells(rows, width), Cells(rows, width), width, func(i int) (name, list string) {
		name = strings.TrimSpace(rows[i].Kind + " " + rows[i].displayName())
		if rows[i].Reason != "" {
			name += ": " + rows[i].Reason
		}
		return name, rows[i].list
	})
}

// BlockerNotes are those of a table of blockers.
func BlockerNotes(blockers []BlockedObject, now time.Time, width int) []string {
	if width <= 0 {
		return nil
	}
	return notes(blockerTable(blockers, now), BlockerCells(blockers, now, width), width, func(i int) (name, list string) {
		return Printable(blockers[i].Object.String() + ": " + string(blockers[i].Reason)), ""
	})
}

// notes compares a table with what is left of it at the given width. Row returns the name of the line with an index, without the
// header, and its text if that has lines.
func notes(full, table [][]string, width int, row func(int) (name, list string)) (out []string) {
	for i, cells := range table[1:] {
		last := len(cells) - 1
		text := strings.Join(strings.Fields(full[i+1][last]), " ")
		isWhole := text == cells[last]
		for j, cell := range full[i+1][:last] {
			isWhole = isWhole && strings.TrimRight(cells[j], " ") == strings.TrimRight(cell, " ")
		}
		if isWhole {
			continue
		}
		name, list := row(i)
		title, items, isList := strings.Cut(list, "\n")
		if !isList {
			title = text
		}
		out = append(append(out, wrapName(name, width)...), Wrap(title, "  ", width)...)
		for line := range strings.Lines(items) {
			wrapped := Wrap(Printable(line), "      ", width)
			wrapped[0] = strings.TrimPrefix(wrapped[0], "  ")
			out = append(out, wrapped...)
		}
	}
	return out
}

// wrapName breaks the name of a row into lines. The first is not indented, as a title.
func wrapName(name string, width int) []string {
	if utf8.RuneCountInString(name) <= width {
		return []string{name}
	}
	lines := Wrap(name, "    ", width)
	lines[0] = strings.TrimLeft(lines[0], " ")
	return lines
}

// Wrap breaks a text into indented lines of at most width characters: between words, or
// within a word that is longer than a line. It is for screens; other texts are wrapped by
// package diag, which breaks no words.
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
