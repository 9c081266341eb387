package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	Work   string  `json:"work"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Budget float64 `json:"budget"`
	OK     bool    `json:"ok"`
	Detail string  `json:"detail,omitempty"`
	// Samples are the single measurements, if Value is their median.
	Samples []float64 `json:"samples,omitempty"`
}

// add adds rows to the table.
func (b *bench) add(rows ...row) {
	for _, r := range rows {
		r.OK = r.Value <= r.Budget
		b.rows = append(b.rows, r)
	}
}

// share is how much of its budget a row takes.
func (r row) share() string {
	if r.Budget == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", r.Value/r.Budget)
}

func (r row) verdict() string {
	switch {
	case r.OK:
		return "ok"
	case r.Budget == 0:
		return "MISSED"
	}
	return fmt.Sprintf("MISSED by %.0f %%", 100*(r.Value/r.Budget-1))
}

// number formats a number with at most two decimals, and without trailing zeros.
func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(math.Round(100*v)/100, 'f', -1, 64)
}

// cells are the columns of a row in both tables.
func (r row) cells() []string {
	return []string{r.Work, number(r.Value) + " " + r.Unit, number(r.Budget), r.share(), r.verdict(), r.Detail}
}

var headings = []string{"scenario", "measured", "budget", "share of the budget", "result", "details"}

// count is the requests of a scenario, as latest.json has them.
type count struct {
	During   string         `json:"during"`
	Objects  int            `json:"objects"`
	Requests map[string]int `json:"requests"`
}

// report is the result of a run.
type report struct {
	Machine   machine `json:"machine"`
	Instances int     `json:"instances"`
	Rounds    int     `json:"rounds"`
	Workers   int     `json:"workers"`
	Fsync     bool    `json:"fsync"`
	Rows      []row   `json:"rows"`
	// Notes explain rows.
	Notes  []string `json:"notes"`
	Counts []count  `json:"counts"`
}

func (b *bench) report(ctx context.Context) (report, error) {
	m, err := b.machine(ctx)
	if err != nil {
		return report{}, err
	}
	r := report{Machine: m, Instances: b.instances, Rounds: b.rounds, Workers: b.workers, Fsync: b.fsync, Rows: b.rows, Notes: b.notes, Counts: b.requestCounts()}
	return r, nil
}

// requestCounts returns the requests of all scenarios.
func (b *bench) requestCounts() []count {
	var all []count
	for _, c := range b.counts {
		out := count{c.what, c.objects, map[string]int{}}
		for k, n := range c.requests {
			out.Requests[k.verb+" "+k.resource] = n
		}
		all = append(all, out)
	}
	return all
}

func (r report) missed() int {
	missed := 0
	for _, row := range r.Rows {
		if !row.OK {
			missed++
		}
	}
	return missed
}

// text is the report for a terminal.
func (r report) text() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(headings, "\t"))
	for _, row := range r.Rows {
		fmt.Fprintln(w, strings.Join(row.cells(), "\t"))
	}
	w.Flush()
	for _, note := range r.Notes {
		out.WriteString("\n" + note)
	}
	out.WriteString("\n\n" + requestList(r.Counts))
	return out.String()
}

// requestList lists the requests for a terminal.
func requestList(counts []count) string {
	out := "requests that the controllers sent, as counted by the API server:\n"
	for _, c := range counts {
		out += fmt.Sprintf("  %s (%d objects): %s\n", c.During, c.Objects, c.list())
	}
	return out
}

func (c count) list() string {
	if len(c.Requests) == 0 {
		return "none"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(c.Requests)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.Requests[k], k))
	}
	return strings.Join(parts, ", ")
}

// write writes latest.json and README.md to a folder.
func (r report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "latest.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), []byte(r.markdown()), 0o644)
}
