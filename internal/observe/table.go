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

// leastRoom is how many characters the last column of a table has at least, if its texts are that long: the columns before it are
// truncated for that. leastColumn is how wide those stay.
const (
	leastRoom   = 20
	leastColumn = 6
)

// fit pads the cells of a table to their columns and, with a width other than 0, truncates
// the last column and, where that is not enough, the widest of the others.
func fit(table [][]string, width int) {
	if width > 0 {
		truncateColumns(table, width)
	}
	pad(table)
	if width <= 0 {
		return
	}
	for _, line := range table {
		last := len(line) - 1
		line[last] = Truncate(line[last], max(width-utf8.RuneCountInString(strings.Join(line[:last], gap))-len(gap), 1))
	}
}

// truncateColumns truncates cells before the last column, so that this one has room.
func truncateColumns(table [][]string, width int) {
	widths := columnWidths(table)
	last := len(widths) - 1
	room := width - min(widths[last], leastRoom) - len(gap)*last
	for taken := sum(widths[:last]); taken > room; taken-- {
		widest := 0
		for i, w := range widths[:last] {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= leastColumn {
			break
		}
		widths[widest]--
	}
	for _, line := range table {
		for i, w := range widths[:last] {
			line[i] = cut(line[i], w)
		}
	}
}

// cut truncates a cell, and keeps its spaces: those of branches.
func cut(cell string, width int) string {
	if utf8.RuneCountInString(cell) <= width {
		return cell
	}
	return string([]rune(cell)[:max(width-1, 0)]) + "…"
}

func columnWidths(table [][]string) []int {
	widths := make([]int, len(table[0]))
	for _, line := range table {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// longestWord is the length of the longest word in a column.
func longestWord(table [][]string, column int) (longest int) {
	for _, line := range table {
		for _, word := range strings.Fields(line[column]) {
			longest = max(longest, utf8.RuneCountInString(word))
		}
	}
	return longest
}

func sum(all []int) (total int) {
	for _, n := range all {
		total += n
	}
	return total
}

// FitTable formats a table, a header and then lines, each on one line: with a width other than 0, columns are truncated to fit.
func FitTable(table [][]string, width int) string {
	fit(table, width)
	return lines(table)
}

// WrapTable formats a table, a header and then lines, and shortens nothing: with a width other than 0, texts in the last column are
// wrapped within it. Where the other columns leave no room for that, each text is below its line.
func WrapTable(table [][]string, width int) string {
	widths := columnWidths(table)
	last := len(widths) - 1
	before := sum(widths[:last]) + len(gap)*last
	if width <= 0 || before+widths[last] <= width {
		pad(table)
		return lines(table)
	}
	var b strings.Builder
	isBelow := before+max(min(widths[last], leastRoom), longestWord(table, last)) > width
	if before-len(gap) <= width {
		pad(table)
	}
	for _, line := range table {
		cells, text := strings.Join(line[:last], gap), strings.Fields(line[last])
		switch {
		case !isBelow:
			diag.WrapHanging(&b, cells+gap, text, width)
			continue
		case before-len(gap) <= width:
			b.WriteString(strings.TrimRight(cells, " ") + "\n")
		default:
			diag.Wrap(&b, "", "    ", strings.Fields(cells), width)
		}
		if len(text) > 0 {
			diag.WrapHanging(&b, "  ", text, width)
		}
	}
	return b.String()
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
	widths := columnWidths(table)
	last := len(widths) - 1
	for _, line := range table {
		for i, width := range widths[:last] {
			line[i] += strings.Repeat(" ", width-utf8.RuneCountInString(line[i]))
		}
		line[last] = strings.Join(strings.Fields(line[last]), " ")
	}
}
