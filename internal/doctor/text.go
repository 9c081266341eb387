package doctor

import (
	"strings"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Text formats findings as a table, and below it what to do about each problem, each warning and what could not be read.
// With a width other than 0, the last column of the table is truncated to fit where the message is below, complete and
// wrapped, and wrapped otherwise.
func Text(all []Finding, width int) string {
	table := [][]string{{"SEVERITY", "CHECK", "OBJECT", "FINDING"}}
	complete := map[int]bool{} // rows of the table without a message below
	for i, f := range all {
		complete[i+1] = !needsText(f)
		name := nameOf(f.Object)
		if name == "" {
			name = "-"
		}
		table = append(table, []string{string(f.Severity), f.Check, printable(name), printable(f.Message)})
	}
	if width > 0 {
		fit(table, width)
	}
	widths := make([]int, 3)
	for _, row := range table {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for r, row := range table {
		line := ""
		for i, cell := range row[:3] {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		if complete[r] {
			diag.WrapHanging(&b, line, strings.Fields(row[3]), width)
			continue
		}
		line += row[3]
		if width > 0 {
			line = truncate(line, width)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	for _, f := range all {
		if !needsText(f) {
			continue
		}
		title := nameOf(f.Object)
		if title == "" {
			title = f.Check
		}
		b.WriteString("\n")
		diag.Wrap(&b, "", "  ", strings.Fields(printable(title)), width)
		diag.Wrap(&b, "  ", "  ", strings.Fields(printable(f.Message)), width)
		diag.WrapAdvice(&b, "  - ", printable(f.Remedy), width)
	}
	return b.String()
}

// objectShare is the part of the width that names of objects have at most: one third.
const objectShare = 3

// fit truncates names of objects, so that a part of each finding is visible.
func fit(table [][]string, width int) {
	for _, row := range table {
		row[2] = truncate(row[2], max(width/objectShare, 10))
	}
}

func printable(text string) string { return strings.Join(strings.Fields(diag.Printable(text)), " ") }

func truncate(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(width-1, 0)]) + "…"
}

// needsText reports whether a finding has a text below the table. Of others the table says it all.
func needsText(f Finding) bool {
	return f.Severity != OK && (f.Severity != Unknown || f.Check == unreadCheck)
}
