// Package top computes what the served kinds cost, from what the running controllers have measured: the most expensive kinds
// first, with the slowest functions.
// See docs/design/0017-what-the-program-shows.md.
//
// Pure: it decides from values alone.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
)

// Table is what kinds have cost in a period. Programs read it: fields may be added, and none changes its name or meaning.
type Table struct {
	// From and To are the period. Sampled says that it is between two readings, and not since the start of the program.
	From      time.Time  `json:"from"`
	To        time.Time  `json:"to"`
	Sampled   bool       `json:"sampled"`
	Kinds     []Kind     `json:"kinds"`
	Functions []Function `json:"functions"`
}

// Kind is a line of a Table. Instances, Ready, Waiting, Active, Retries and OldestSeconds are as of the end of the period.
type Kind struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Instances int    `json:"instances"`
	Ready     int    `json:"ready"`
	// Unreported counts the instances whose status does not say whether they are ready.
	Unreported          int     `json:"unreported,omitempty"`
	Reconciles          uint64  `json:"reconciles"`
	ReconcilesPerSecond float64 `json:"reconcilesPerSecond"`
	Failed              uint64  `json:"failed"`
	Requests            uint64  `json:"requests"`
	RequestsPerSecond   float64 `json:"requestsPerSecond"`
	Latency
	Waiting       int     `json:"waiting"`
	Active        int     `json:"active"`
	Retries       int     `json:"retries"`
	OldestSeconds float64 `json:"oldestSeconds"`
}

// Latency is how long reconciles or calls took: all together, and quantiles.
type Latency struct {
	Seconds    float64 `json:"seconds"`
	P50Seconds float64 `json:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
}

// Function is a function that a kind's compositions call.
type Function struct {
	Group    string `json:"group"`
	Kind     string `json:"kind"`
	Function string `json:"function"`
	Calls    uint64 `json:"calls"`
	Failed   uint64 `json:"failed"`
	Latency
}

// Options choose what a Table has.
type Options struct {
	// Kind is the only kind to show, such as WebApp or webapp.kro.run; empty for all.
	Kind string
	// Sort is one of Sorts; empty for the first.
	Sort string
}

// How many functions a Table has: of all kinds, or of one.
const (
	listedOfAll = 5
	listedOfOne = 20
)

// Sorts are the orders of kinds: the most of each is first, apart from their names.
var Sorts = []string{"time", "latency", "reconciles", "requests", "errors", "queue", "instances", "name"}

// Compute returns the table of a reading, or of the time since an earlier one, unless that is nil.
func Compute(now profile.Reading, earlier *profile.Reading, o Options) (Table, error) {
	compare, err := order(o.Sort)
	if err != nil {
		return Table{}, err
	}
	if earlier != nil {
		now = now.Since(*earlier)
	}
	kinds, err := selected(now.Kinds, o.Kind)
	if err != nil {
		return Table{}, err
	}
	t := Table{
		From: now.Began, To: now.At, Sampled: earlier != nil && now.Began.Equal(earlier.At),
		Kinds: []Kind{}, Functions: []Function{},
	}
	for _, k := range kinds {
		t.add(k)
	}
	slices.SortFunc(t.Kinds, compare)
	slices.SortFunc(t.Functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.name(), b.name()))
	})
	listed := listedOfAll
	if o.Kind != "" {
		listed = listedOfOne
	}
	t.Functions = t.Functions[:min(listed, len(t.Functions))]
	return t, nil
}

// add adds a kind, with its functions that were called.
func (t *Table) add(k profile.Kind) {
	seconds := t.To.Sub(t.From).Seconds()
	perSecond := func(n uint64) float64 {
		if seconds <= 0 {
			return 0
		}
		return float64(n) / seconds
	}
	reconciles := k.Reconciles.Count()
	t.Kinds = append(t.Kinds, Kind{
		Group: k.Group, Kind: k.Kind, Instances: k.Instances, Ready: k.Ready, Unreported: k.Unreported,
		Reconciles: reconciles, ReconcilesPerSecond: perSecond(reconciles), Failed: k.Failed, Requests: k.Requests, RequestsPerSecond: perSecond(k.Requests),
		Latency: latency(k.Reconciles), Waiting: k.Waiting, Active: k.Active, Retries: k.Retries, OldestSeconds: k.OldestSeconds,
	})
	for _, f := range k.Functions {
		if calls := f.Calls.Count(); calls > 0 {
			t.Functions = append(t.Functions, Function{Group: k.Group, Kind: k.Kind, Function: f.Name, Calls: calls, Failed: f.Failed, Latency: latency(f.Calls)})
		}
	}
}

func latency(h profile.Histogram) Latency {
	return Latency{Seconds: h.Sum.Seconds(), P50Seconds: h.Quantile(0.5).Seconds(), P99Seconds: h.Quantile(0.99).Seconds()}
}

// name is what kinds are ordered by if nothing else differs.
func (k Kind) name() string { return qualified(k.Kind, k.Group) }

func (f Function) name() string { return qualified(f.Kind, f.Group) + " " + f.Function }

// qualified is a kind with its group: Vpc.kro.run.
func qualified(kind, group string) string { return strings.TrimSuffix(kind+"."+group, ".") }

// order returns the comparison of an order.
func order(name string) (func(a, b Kind) int, error) {
	by := map[string]func(Kind) float64{
		"time":       func(k Kind) float64 { return k.Seconds },
		"latency":    func(k Kind) float64 { return k.P99Seconds },
		"reconciles": func(k Kind) float64 { return float64(k.Reconciles) },
		"requests":   func(k Kind) float64 { return float64(k.Requests) },
		"errors":     func(k Kind) float64 { return float64(k.Failed) },
		"queue":      func(k Kind) float64 { return float64(k.Waiting) },
		"instances":  func(k Kind) float64 { return float64(k.Instances) },
		"name":       func(Kind) float64 { return 0 },
	}
	key, known := by[cmp.Or(name, Sorts[0])]
	if !known {
		return nil, fmt.Errorf("there is no order %q: it can be %s", name, strings.Join(Sorts, ", "))
	}
	return func(a, b Kind) int { return cmp.Or(cmp.Compare(key(b), key(a)), cmp.Compare(a.name(), b.name())) }, nil
}

// selected returns the kinds of a name.
func selected(all []profile.Kind, name string) ([]profile.Kind, error) {
	if name == "" {
		return all, nil
	}
	var out []profile.Kind
	var names []string
	for _, k := range all {
		if strings.EqualFold(name, k.Kind) || strings.EqualFold(name, qualified(k.Kind, k.Group)) {
			out = append(out, k)
		}
		names = append(names, k.Kind)
	}
	if len(out) > 0 {
		return out, nil
	}
	if near := diag.Nearest(name, names); near != "" {
		return nil, fmt.Errorf("no controller runs for kind %q; did you mean %s?", name, near)
	}
	return nil, fmt.Errorf("no controller runs for kind %q", name)
}
