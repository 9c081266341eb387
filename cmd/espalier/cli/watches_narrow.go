package cli

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
)

// narrowWatches formats watches for a narrow screen: kinds below their group and version, with
// fewer columns, and why watches are unavailable below the table.
func narrowWatches(all []introspect.Watch, width int) string {
	if len(all) == 0 {
		return ""
	}
	var out strings.Builder
	line := func(text string) { out.WriteString(strings.TrimRight(text, " ") + "\n") }
	table := narrowCells(all, width)
	line(strings.Join(table[0], "  "))
	group := ""
	for i, x := range all {
		if gv := (schema.GroupVersion{Group: x.Group, Version: x.Version}).String(); gv != group {
			group = gv
			line(observe.Truncate(group, width))
		}
		line(strings.Join(table[i+1], "  "))
	}
	for _, x := range all {
		if x.Unavailable() {
			line("")
			line(observe.Truncate(observe.Printable(fullKind(x)+": "+x.Reason), width))
			for _, text := range observe.Wrap(observe.Printable(x.Message), "  ", width) {
				line(text)
			}
		}
	}
	line("")
	return out.String()
}

// narrowCells returns a header and a line for each watch, padded to columns; selections are
// truncated to fit.
func narrowCells(all []introspect.Watch, width int) [][]string {
	const selection, indent = 1, "  "
	table := [][]string{{"KIND", "SELECTION", "STATE", "OBJECTS", "AGE"}}
	for _, x := range all {
		what := x.Selection
		if x.As != "" {
			what += " as " + strings.TrimPrefix(x.As, "system:serviceaccount:")
		}
		table = append(table, []string{
			indent + observe.Printable(x.Kind), observe.Printable(what), x.State, strconv.Itoa(x.Objects), observe.Age(time.Duration(x.AgeSeconds) * time.Second),
		})
	}
	widths, taken := make([]int, len(table[0])), 0
	for column := range widths {
		for _, cells := range table {
			widths[column] = max(widths[column], utf8.RuneCountInString(cells[column]))
		}
		if column != selection {
			taken += widths[column]
		}
	}
	room := width - taken - len(indent)*(len(widths)-1)
	widths[selection] = min(widths[selection], max(room, len(table[0][selection])))
	for _, cells := range table {
		cells[selection] = observe.Truncate(cells[selection], widths[selection])
		for column := range cells {
			cells[column] = pad(cells[column], widths[column])
		}
	}
	return table
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-lipgloss.Width(text), 0))
}
