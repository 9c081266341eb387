package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/espalier-dev/espalier/test/bench/curve"
)

// scaleReport is the result of a run with -scale.
type scaleReport struct {
	Machine machine `json:"machine"`
	Workers int     `json:"workers"`
	Fsync   bool    `json:"fsync"`
	Note    string  `json:"note,omitempty"`
	// Instances are measures by the number of instances, Children by the number of children of one instance.
	Instances []measure `json:"instances"`
	Children  []measure `json:"children"`
	// Rows are what was measured at one size.
	Rows []row `json:"rows"`
	// Unfinished is why the run ended before everything was measured.
	Unfinished string  `json:"unfinished,omitempty"`
	Counts     []count `json:"counts"`
}

func (b *bench) scaleReport(ctx context.Context) (scaleReport, error) {
	m, err := b.machine(ctx)
	return scaleReport{Machine: m, Workers: b.workers, Fsync: b.fsync, Note: b.note, Instances: b.grown["instances"], Children: b.grown["children"],
		Rows: b.rows, Counts: b.requestCounts()}, err
}

// family is the measures of the same sizes.
type family struct {
	title, of string
	measures  []measure
	charts    []chart
}

// chart is a picture of some measures of a family, by the name of its file.
type chart struct{ name, title, values string }

func (r scaleReport) families() []family {
	return []family{
		{"Instances", "instances", r.Instances, []chart{
			{"creation", "Creation of an instance with five children", "ms for each instance"},
			{"deletion", "Deletion of an instance with five children", "ms for each instance"},
			{"change", "One change among all instances, until the instance is ready", "ms"},
			{"restart", "Restart of the controllers, until all instances are reconciled", "s"},
			{"memory", "Resident memory", "MiB"},
		}},
		{"Children of one instance", "children", r.Children, []chart{
			{"children", "One instance with many children", "ms for each child"},
			{"drift", "Drift of one child, until it is corrected", "ms"},
		}},
	}
}

// sizes returns the sizes at which a family was measured.
func (f family) sizes() []float64 {
	var out []float64
	for _, m := range f.measures {
		for _, p := range m.Points {
			out = append(out, p.Size)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// headings are the columns of the family's table.
func (f family) headings() []string {
	out := []string{"measure", "unit"}
	for _, size := range f.sizes() {
		out = append(out, fmt.Sprintf("%.0f", size))
	}
	return append(out, "exponent", "growth", "budget", "result")
}

func (f family) cells(m measure) []string {
	out := []string{m.Name, m.Unit}
	for _, size := range f.sizes() {
		out = append(out, m.cell(size))
	}
	budget := "–"
	if m.Budget > 0 {
		budget = number(m.Budget) + " ×"
	}
	return append(out, m.exponent(), m.multiple(), budget, m.verdict())
}

// picture draws a chart; false if nothing was measured for it.
func (f family) picture(c chart) (curve.Chart, bool) {
	out := curve.Chart{Title: c.title, Sizes: f.of, Values: c.values}
	for _, m := range f.measures {
		if m.Chart == c.name {
			out.Lines = append(out.Lines, curve.Line{Name: fmt.Sprintf("%s (exponent %s)", m.Name, m.exponent()), Points: m.Points})
		}
	}
	return out, len(out.Lines) > 0
}

func (c chart) file() string { return "scale-" + c.name + ".svg" }

func (r scaleReport) missed() int {
	missed := 0
	for _, row := range r.Rows {
		if !row.OK {
			missed++
		}
	}
	for _, m := range slices.Concat(r.Instances, r.Children) {
		if m.exceeds() {
			missed++
		}
	}
	return missed
}

// text is the report for a terminal.
func (r scaleReport) text() string {
	var out strings.Builder
	table := func(headings []string, rows [][]string) {
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		for _, cells := range append([][]string{headings}, rows...) {
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		w.Flush()
		out.WriteString("\n")
	}
	r.tables(func(_ string, headings []string, rows [][]string, _ []chart) { table(headings, rows) })
	out.WriteString(requestList(r.Counts))
	return out.String()
}

// tables calls do for each table that has rows.
func (r scaleReport) tables(do func(title string, headings []string, rows [][]string, charts []chart)) {
	for _, f := range r.families() {
		var rows [][]string
		for _, m := range f.measures {
			rows = append(rows, f.cells(m))
		}
		var charts []chart
		for _, c := range f.charts {
			if _, drawn := f.picture(c); drawn {
				charts = append(charts, c)
			}
		}
		if len(rows) > 0 {
			do(f.title, f.headings(), rows, charts)
		}
	}
	var rows [][]string
	for _, row := range r.Rows {
		rows = append(rows, row.cells())
	}
	if len(rows) > 0 {
		do("Definitions, nests and restarts", headings, rows, nil)
	}
}

// write writes scale.json, SCALE.md and the charts to a folder.
func (r scaleReport) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{"scale.json": string(data) + "\n", "SCALE.md": r.markdown()}
	for _, f := range r.families() {
		for _, c := range f.charts {
			if picture, drawn := f.picture(c); drawn {
				files[c.file()] = picture.SVG()
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// markdown is the report as a page.
func (r scaleReport) markdown() string {
	var out strings.Builder
	out.WriteString("# Scale\n\nHow the costs of the [benchmark](README.md) grow with the number of objects. Written by `make bench-scale`; `scale.json` has the same results.\n\n" +
		"Exponent: the measure grows with this power of the number, fitted to all sizes: 0 is constant, 1 proportional. Growth: the value at the " +
		"largest number, as a multiple of that at the smallest; that is what a budget bounds.\n")
	if r.Unfinished != "" {
		fmt.Fprintf(&out, "\nThe run ended before everything was measured: %s.\n", r.Unfinished)
	}
	r.tables(func(title string, headings []string, rows [][]string, charts []chart) {
		fmt.Fprintf(&out, "\n## %s\n\n|%s|\n|%s\n", title, strings.Join(headings, "|"), strings.Repeat("---|", len(headings)))
		for _, cells := range rows {
			fmt.Fprintf(&out, "|%s|\n", strings.Join(cells, "|"))
		}
		for _, c := range charts {
			fmt.Fprintf(&out, "\n![%s](%s)\n", c.title, c.file())
		}
	})
	out.WriteString("\n" + r.Machine.measuredOn(r.Fsync))
	if r.Note != "" {
		fmt.Fprintf(&out, "\n%s\n", r.Note)
	}
	fmt.Fprintf(&out, scaleMethod, r.Workers, enough, maxRounds, singleChanges, driftedChildren)
	out.WriteString(requestTable(r.Counts))
	return out.String()
}

const scaleMethod = `
## Method

What is not said here is as in the [benchmark](README.md#method).

- An instance has five ConfigMaps in three levels. All instances of a size are created concurrently, by %d users, from the
  first create until the last instance is ready, and deleted in the same way. Fewer than %d are created and deleted in
  several rounds, at most %d, and the table has the median of these. CPU time of the controllers includes that of the
  simulated users, which are in the same process.
- Creation and deletion are also added, round by round: garbage of the API server that the one leaves is often collected
  during the other, and in rounds of a few instances hardly any is.
- One change among all is a change of a field that all five children use, in one of %d instances one after the other, from
  the sending of the change until a watch has shown that the instance is ready with it. The others are at rest.
- Resident memory is that of the processes after these changes, with the garbage that is not collected yet. The heap for
  each child is the difference of the heaps in use, with the instances and without any, after restarts.
- The children of one instance are ConfigMaps in five collections. Drift is a change of a field of one of them by another manager,
  %d times in different children, from the response until a watch has shown the old value.
- The heap of a definition is the difference of the heaps in use, with a hundred definitions and without them, while another
  definition of the same resources exists. All of them use the kind whose CustomResourceDefinition changes: it gets one
  more field.
- Each scenario deletes its instances, definitions and kinds before the next one begins.
`
