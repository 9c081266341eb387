package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/internal/observe"
)

const (
	gap = "  "
	// narrowWidth is the width below which kinds are named without their groups, and some columns are left out.
	narrowWidth = 100
	// maxRows bounds the kinds on a screen.
	maxRows = 50
)

// Text formats a table for a screen of the given width; a width of 0 means no limit. Kinds without objects and reconciles
// are only counted if there are others.
func (t Table) Text(width int) string {
	if len(t.Kinds) == 0 {
		return "no controllers run\n"
	}
	var b strings.Builder
	b.WriteString(t.period() + "\n\n")
	write(&b, t.kindCells(width), width)
	if cells := t.functionCells(); len(cells) > 1 {
		b.WriteString("\nSlowest functions:\n\n")
		write(&b, cells, width)
	}
	return b.String()
}

// period says what the numbers are of.
func (t Table) period() string {
	length := t.To.Sub(t.From)
	if t.Sampled {
		return "In " + Duration(length.Seconds()) + ":"
	}
	return "Since the program began, " + observe.Age(length) + " ago:"
}

// kindCells are the lines of kinds, with a header.
func (t Table) kindCells(width int) [][]string {
	narrow := width > 0 && width < narrowWidth
	header := []string{"KIND", "READY", "RECONCILES", "ERRORS", "REQUESTS", "TIME", "P50", "P99", "QUEUE", "OLDEST"}
	if narrow {
		header = []string{"KIND", "READY", "RECONCILES", "ERRORS", "REQUESTS", "TIME", "P99", "QUEUE"}
	}
	lines, quiet := [][]string{header}, 0
	for _, k := range t.Kinds {
		if k.isQuiet() && len(t.Kinds) > 1 || len(lines) > maxRows {
			quiet++
			continue
		}
		lines = append(lines, t.kindLine(k, narrow))
	}
	if quiet > 0 && len(lines) > maxRows {
		return append(lines, []string{fmt.Sprintf("and %d more", quiet)})
	}
	if quiet > 0 {
		return append(lines, []string{fmt.Sprintf("and %d without objects and reconciles", quiet)})
	}
	return lines
}

func (t Table) kindLine(k Kind, narrow bool) []string {
	reconciles, requests := Count(k.Reconciles), Count(k.Requests)
	if t.Sampled {
		reconciles, requests = rate(k.ReconcilesPerSecond), rate(k.RequestsPerSecond)
	}
	ready := fmt.Sprintf("%d/%d", k.Ready, k.Instances)
	if k.Instances > 0 && k.Unreported == k.Instances {
		ready = string(observe.NotReported)
	}
	if narrow {
		return []string{k.Kind, ready, reconciles, Count(k.Failed), requests, Duration(k.Seconds), Duration(k.P99Seconds), strconv.Itoa(k.Waiting)}
	}
	oldest := ""
	if k.Waiting > 0 {
		oldest = Duration(k.OldestSeconds)
	}
	return []string{
		qualified(k.Kind, k.Group), ready, reconciles, Count(k.Failed), requests,
		Duration(k.Seconds), Duration(k.P50Seconds), Duration(k.P99Seconds), strconv.Itoa(k.Waiting), oldest,
	}
}

func (k Kind) isQuiet() bool {
	return k.Instances == 0 && k.Reconciles == 0 && k.Waiting == 0 && k.Active == 0
}

func (t Table) functionCells() [][]string {
	lines := [][]string{{"TIME", "CALLS", "ERRORS", "P50", "P99", "KIND", "FUNCTION"}}
	for _, f := range t.Functions {
		lines = append(lines, []string{
			Duration(f.Seconds), Count(f.Calls), Count(f.Failed), Duration(f.P50Seconds), Duration(f.P99Seconds), f.Kind, observe.Printable(f.Function),
		})
	}
	return lines
}

// write writes lines of cells in columns. A line of one cell belongs to no column. Lines that are too long end with an ellipsis.
func write(b *strings.Builder, lines [][]string, width int) {
	columns := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, cell := range cells {
			if len(cells) > 1 {
				columns[i] = max(columns[i], utf8.RuneCountInString(cell))
			}
		}
	}
	fitFirst(columns, width)
	for _, cells := range lines {
		var line strings.Builder
		for i, cell := range cells {
			if len(cells) > 1 {
				cell = observe.Truncate(cell, columns[i])
				cell += strings.Repeat(" ", columns[i]-utf8.RuneCountInString(cell))
			}
			line.WriteString(cell + gap)
		}
		b.WriteString(shorten(strings.TrimRight(line.String(), " "), width) + "\n")
	}
}

// minFirst is how narrow a first column gets so that a line fits.
const minFirst = 12

// fitFirst narrows the first column, so that lines fit.
func fitFirst(columns []int, width int) {
	total := len(gap) * (len(columns) - 1)
	for _, column := range columns {
		total += column
	}
	if width > 0 && total > width && columns[0] > minFirst {
		columns[0] = max(columns[0]-(total-width), minFirst)
	}
}

// shorten cuts a line, and keeps its spaces.
func shorten(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:max(width-1, 0)]) + "…"
}

// Duration formats seconds with three digits at most.
func Duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d <= 0:
		return "0"
	case d < time.Millisecond:
		return digits(float64(d)/float64(time.Microsecond)) + "µs"
	case d < time.Second:
		return digits(float64(d)/float64(time.Millisecond)) + "ms"
	case d < 2*time.Minute:
		return digits(seconds) + "s"
	}
	return observe.Age(d)
}

// digits formats a number with a decimal if it is small.
func digits(n float64) string {
	if n < 9.95 {
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// Count formats a number with three or four digits: 12k, 3.4M.
func Count(n uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= 10*unit.size || unit.size > 1e3 && n >= unit.size {
			return digits(float64(n)/float64(unit.size)) + unit.name
		}
	}
	return strconv.FormatUint(n, 10)
}

// rate formats a number per second.
func rate(perSecond float64) string {
	switch {
	case perSecond <= 0:
		return "0/s"
	case perSecond < 0.1:
		return "<0.1/s"
	case perSecond >= 1000:
		return Count(uint64(perSecond)) + "/s"
	}
	return digits(perSecond) + "/s"
}
