package doctor

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Text formats findings as a table, and below it what to do about each problem, each warning and what could not be read.
// With a width other than 0, the last column of the table is truncated to fit where the message is below, complete and
// wrapped, and wrapped otherwise.
func Text(all []Finding, width int) string {
	all, names := merged(all)
	table := [][]string{{"SEVERITY", "CHECK", "OBJECT", "FINDING"}}
	complete := map[int]bool{} // rows of the table without a message below
	for i, f := range all {
		complete[i+1] = !needsText(f)
		name := nameOf(f.Object)
		switch {
		case name == "":
			name = "-"
		case len(names[i]) > 0:
			name = fmt.Sprintf("%d of kind %s", len(names[i]), f.Object.Kind)
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
	for i, f := range all {
		if !needsText(f) {
			continue
		}
		title := nameOf(f.Object)
		switch {
		case title == "":
			title = f.Check
		case len(names[i]) > maxNames:
			title = fmt.Sprintf("%s and %d more, which -o json lists", strings.Join(names[i][:maxNames], ", "), len(names[i])-maxNames)
		case len(names[i]) > 1:
			title = strings.Join(names[i], ", ")
		}
		b.WriteString("\n")
		diag.Wrap(&b, "", "  ", strings.Fields(printable(title)), width)
		diag.Wrap(&b, "  ", "  ", strings.Fields(printable(f.Message)), width)
		diag.WrapAdvice(&b, "  - ", printable(f.Remedy), width)
	}
	return b.String()
}

// leastMerged is how many objects of a kind with the same finding are shown as one, and maxNames how many of them are named.
const (
	leastMerged = 3
	maxNames    = 10
)

// merged returns the findings with one for each that several objects of a kind have, and the names of these: a single cause is
// found at everything that follows from it. Times make no difference.
func merged(all []Finding) (out []Finding, names [][]string) {
	type key struct {
		severity       Severity
		check, message string
		group, kind    string
	}
	keyOf := func(f Finding) key {
		return key{f.Severity, f.Check, timestamp.ReplaceAllString(f.Message, ""), f.Object.Group, f.Object.Kind}
	}
	same := map[key][]string{}
	for _, f := range all {
		if f.Object != nil {
			same[keyOf(f)] = append(same[keyOf(f)], nameOf(f.Object))
		}
	}
	shown := map[key]bool{}
	for _, f := range all {
		if f.Object == nil || len(same[keyOf(f)]) < leastMerged {
			out, names = append(out, f), append(names, nil)
			continue
		}
		if k := keyOf(f); !shown[k] {
			shown[k] = true
			out, names = append(out, f), append(names, same[k])
		}
	}
	return out, names
}

// timestamp matches the times in findings.
var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

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
