package observe

import (
	"strings"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/internal/diag"
)

// gap separates columns.
const gap = "  "

// narrowWidth is the width below which namespaces and reasons have no columns of their own.
// The width decides and not the content, so that a table keeps its columns when it is
// redrawn.
const narrowWidth = 120

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

// Cells lays rows out as a table: a header, then a line for each row, every cell but the last
// of a line padded to its column. With a width other than 0, the last column is truncated to
// fit; in a narrow table it also has the reasons, and the names have the namespaces.
func Cells(rows []Row, width int) [][]string {
	table := fullCells(rows, width)
	fit(table, width)
	return table
}

// fullCells are the cells of a table for the given width, neither padded nor truncated.
func fullCells(rows []Row, width int) [][]string {
	if width > 0 && width < narrowWidth {
		table := [][]string{{KindColumn, NameColumn, ReadyColumn, AgeColumn, DetailColumn}}
		for _, r := range rows {
			table = append(table, []string{r.Branch + r.Kind, r.QualifiedName, string(r.Ready), r.Age, r.brief()})
		}
		return table
	}
	table := [][]string{{KindColumn, NamespaceColumn, NameColumn, ReadyColumn, ReasonColumn, AgeColumn, DetailColumn}}
	for _, r := range rows {
		table = append(table, []string{r.Branch + r.Kind, r.Namespace, r.Name, string(r.Ready), r.Reason, r.Age, r.Detail})
	}
	return table
}

// fit pads the cells of a table to their columns and, with a width other than 0, truncates
// the last column.
func fit(table [][]string, width int) {
	pad(table)
	if width <= 0 {
		return
	}
	for _, line := range table {
		last := len(line) - 1
		line[last] = Truncate(line[last], max(width-utf8.RuneCountInString(strings.Join(line[:last], gap))-len(gap), 1))
	}
}

// brief is the detail or, if there is none, the reason: for narrow tables.
func (r Row) brief() string {
	if r.Detail != "" || r.Ready == True {
		return r.Detail
	}
	return r.Reason
}

// Table formats the rows as plain text.
func Table(rows []Row, width int) string { return lines(Cells(rows, width)) }

func lines(table [][]string) string {
	var b strings.Builder
	for _, line := range table {
		b.WriteString(strings.TrimRight(strings.Join(line, gap), " ") + "\n")
	}
	return b.String()
}

// Truncate shortens a text to at most width characters, with an ellipsis at the end. Runs of
// white space, line breaks among them, become one space.
func Truncate(text string, width int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:max(width-1, 0)]), " ") + "…"
}

// Printable puts a text on one line, with single spaces, and escapes control characters: messages
// may quote foreign text, such as a webhook's, which could otherwise control the terminal.
func Printable(text string) string {
	return strings.Join(strings.Fields(diag.Printable(text)), " ")
}

// pad widens cells to their column, except in the last column.
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
