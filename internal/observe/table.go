package observe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// gap separates columns.
const gap = "  "

// narrow is the width below which namespaces and reasons have no columns of their own. It
// is the width that decides and not the content, so that a table that is redrawn keeps
// its shape.
const narrow = 120

// Titles of columns.
const (
	KindColumn      = "KIND"
	NamespaceColumn = "NAMESPACE"
	NameColumn      = "NAME"
	ReadyColumn     = "READY"
	ReasonColumn    = "REASON"
	AgeColumn       = "AGE"
	DetailColumn    = "WAITS FOR"
)

// Cells lays rows out as a table: a header, then a line for each row, every cell
// but the last of a line padded to its column. Where a width is given, what is
// too long in the last column is cut, and in a narrow table that column tells
// the reasons too, and names tell namespaces. A width of 0 has room for everything.
func Cells(rows []Row, width int) [][]string {
	table := uncut(rows, width)
	fit(table, width)
	return table
}

// uncut are the cells of a table for the given width, as long as they are.
func uncut(rows []Row, width int) [][]string {
	if width > 0 && width < narrow {
		table := [][]string{{KindColumn, NameColumn, ReadyColumn, AgeColumn, DetailColumn}}
		for _, r := range rows {
			table = append(table, []string{r.Branch + r.Kind, r.Full, string(r.Ready), r.Age, r.brief()})
		}
		return table
	}
	table := [][]string{{KindColumn, NamespaceColumn, NameColumn, ReadyColumn, ReasonColumn, AgeColumn, DetailColumn}}
	for _, r := range rows {
		table = append(table, []string{r.Branch + r.Kind, r.Namespace, r.Name, string(r.Ready), r.Reason, r.Age, r.Detail})
	}
	return table
}

// fit widens the cells of a table to their columns and cuts what is too long in
// the last one, if a width is given.
func fit(table [][]string, width int) {
	pad(table)
	if width <= 0 {
		return
	}
	for _, line := range table {
		last := len(line) - 1
		line[last] = Cut(line[last], max(width-utf8.RuneCountInString(strings.Join(line[:last], gap))-len(gap), 1))
	}
}

// brief is the one thing to say of a row where there is little room.
func (r Row) brief() string {
	if r.Detail != "" || r.Ready == True {
		return r.Detail
	}
	return r.Reason
}

// Table is the rows as plain text, the same for the same rows.
func Table(rows []Row, width int) string { return lines(Cells(rows, width)) }

func lines(table [][]string) string {
	var b strings.Builder
	for _, line := range table {
		b.WriteString(strings.TrimRight(strings.Join(line, gap), " ") + "\n")
	}
	return b.String()
}

// Cut shortens a text to so many characters, the last of which then says that
// there was more. Line breaks become spaces.
func Cut(text string, width int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:max(width-1, 0)]), " ") + "…"
}

// Printable is a text on one line. Messages may quote anybody, a failing webhook
// say, who could otherwise write on the person's terminal what they like.
func Printable(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)), " ")
}

// pad widens cells to their column; the last column ends as it does.
func pad(table [][]string) {
	for column := range len(table[0]) - 1 {
		width := 0
		for _, line := range table {
			width = max(width, utf8.RuneCountInString(line[column]))
		}
		for _, line := range table {
			line[column] += strings.Repeat(" ", width-utf8.RuneCountInString(line[column]))
		}
	}
	last := len(table[0]) - 1
	for _, line := range table {
		line[last] = strings.Join(strings.Fields(line[last]), " ")
	}
}
