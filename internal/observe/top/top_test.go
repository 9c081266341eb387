package top_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/internal/observe/top"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"sigs.k8s.io/yaml"
)

// measured is a kind in testdata: durations are written as how often which occurred.
type measured struct {
	profile.Kind
	Reconciles map[string]int `json:"reconciles"`
	Functions  []struct {
		profile.Function
		Calls map[string]int `json:"calls"`
	} `json:"functions"`
}

type reading struct {
	profile.Reading
	Kinds []measured `json:"kinds"`
}

func histogram(t *testing.T, of map[string]int) (h profile.Histogram) {
	t.Helper()
	for text, n := range of {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			h.Observe(d)
		}
	}
	return h
}

func read(t *testing.T, text string) *profile.Reading {
	t.Helper()
	if text == "" {
		return nil
	}
	var r reading
	if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	out := r.Reading
	for _, k := range r.Kinds {
		kind := k.Kind
		kind.Reconciles = histogram(t, k.Reconciles)
		for _, f := range k.Functions {
			f.Function.Calls = histogram(t, f.Calls)
			kind.Functions = append(kind.Functions, f.Function)
		}
		out.Kinds = append(out.Kinds, kind)
	}
	return &out
}

// TestTables reads testdata: two readings or one, and options.
func TestTables(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		var o top.Options
		if err := yaml.UnmarshalStrict([]byte(a.Input["options.yaml"]), &o); err != nil {
			t.Fatal(err)
		}
		table, err := top.Compute(*read(t, a.Input["now.yaml"]), read(t, a.Input["before.yaml"]), o)
		if err != nil {
			t.Fatal(err)
		}
		a.Record("unlimited", table.Text(0))
		for _, width := range []int{80, 120} {
			text := table.Text(width)
			a.Record(fmt.Sprint(width), text)
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("a line has %d characters: %s", n, line)
				}
			}
		}
		raw, err := json.MarshalIndent(table, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		a.Record("json", string(raw)+"\n")
	})
}

func TestOrders(t *testing.T) {
	kinds := []profile.Kind{
		{Kind: "A", Instances: 1, Waiting: 1, Requests: 5, Failed: 1, Reconciles: histogram(t, map[string]int{"1s": 1})},
		{Kind: "B", Instances: 2, Waiting: 3, Requests: 4, Failed: 2, Reconciles: histogram(t, map[string]int{"1ms": 10})},
		{Kind: "C", Instances: 3, Waiting: 2, Requests: 6, Failed: 2, Reconciles: histogram(t, map[string]int{"500ms": 3})},
	}
	wants := map[string]string{"": "CAB", "time": "CAB", "latency": "ACB", "reconciles": "BCA", "requests": "CAB", "errors": "BCA", "queue": "BCA", "instances": "CBA", "name": "ABC"}
	for _, sort := range append([]string{""}, top.Sorts...) {
		table, err := top.Compute(profile.Reading{Kinds: kinds}, nil, top.Options{Sort: sort})
		got := ""
		for _, k := range table.Kinds {
			got += k.Kind
		}
		if err != nil || got != wants[sort] {
			t.Errorf("the order %q is %s, not %s: %v", sort, got, wants[sort], err)
		}
	}
	if n := len(slices.Collect(maps.Keys(wants))); n != len(top.Sorts)+1 {
		t.Errorf("%d orders are tested", n)
	}
	if _, err := top.Compute(profile.Reading{}, nil, top.Options{Sort: "cost"}); err == nil || !strings.Contains(err.Error(), "it can be time, latency") {
		t.Errorf("got error %v", err)
	}
}

func TestKindsAreSelectedByName(t *testing.T) {
	now := profile.Reading{Kinds: []profile.Kind{{Group: "kro.run", Kind: "Web"}, {Group: "example.com", Kind: "Web"}, {Kind: "Secret"}}}
	for name, want := range map[string]string{"web": "Web.example.com Web.kro.run", "WEB.kro.run": "Web.kro.run", "Secret": "Secret", "Wep": "did you mean Web?", "database": `kind "database"`} {
		table, err := top.Compute(now, nil, top.Options{Kind: name})
		var got []string
		for _, k := range table.Kinds {
			got = append(got, strings.TrimSuffix(k.Kind+"."+k.Group, "."))
		}
		if text := strings.Join(got, " "); text != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %s, %v", name, text, err)
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0", 0: "0", 400: "0.4µs", 25 * time.Microsecond: "25µs", 1234 * time.Microsecond: "1.2ms", 999 * time.Millisecond: "999ms",
		time.Second: "1s", 1500 * time.Millisecond: "1.5s", 75 * time.Second: "75s", 5 * time.Minute: "5m", 100 * time.Hour: "4d",
	} {
		if got := top.Duration(d.Seconds()); got != want {
			t.Errorf("%s is %s, not %s", d, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 9999: "9999", 10_000: "10k", 123_456: "123k", 1_500_000: "1.5M", 2_000_000_000: "2G"} {
		if got := top.Count(n); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	}
}
