package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Tolerances: idle connections have goroutines and files, and memory is freed in steps.
const (
	moreGoroutines = 20
	moreFiles      = 10
	moreHeap       = 6 << 20
)

// row is a line of the table: a number before and after, and what makes the difference.
type row struct {
	what          string
	before, after float64
	tolerance     float64
	more          []string
}

func (r row) leaks() bool { return r.after > r.before+r.tolerance }

// rows compare two usages.
func rows(when string, before, after usage) []row {
	counted := func(what string, tolerance int, a, b map[string]int) row {
		return row{what + ", " + when, float64(sum(a)), float64(sum(b)), float64(tolerance), difference(a, b)}
	}
	objects := counted("objects", 0, before.objects, after.objects)
	if len(objects.more) > 0 {
		objects.tolerance = -1 // one that is gone must not hide one that is left
	}
	return []row{
		counted("goroutines", moreGoroutines, before.goroutines, after.goroutines),
		counted("watches of the hub", 0, before.watches, after.watches),
		counted("open watches of the API server", 0, before.streams, after.streams),
		objects,
		{"open files, " + when, float64(before.files), float64(after.files), moreFiles, nil},
		{"heap in MiB, " + when, mebibytes(before.heap), mebibytes(after.heap), mebibytes(before.heap/4 + moreHeap), nil},
	}
}

// difference lists what there is more of.
func difference(before, after map[string]int) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - before[name]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, name))
		}
	}
	return out
}

// leaks are the rows beyond their tolerance, as an error.
func leaks(all []row) error {
	var problems []error
	for _, r := range all {
		if r.leaks() {
			problems = append(problems, fmt.Errorf("more %s: %.1f, and %.1f in the beginning\n  %s", r.what, r.after, r.before, strings.Join(r.more, "\n  ")))
		}
	}
	return errors.Join(problems...)
}

func table(all []row) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tbegin\tend\ttolerance\tresult")
	for _, r := range all {
		result := "ok"
		if r.leaks() {
			result = "LEAK"
		}
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%.3g\t%s\n", r.what, r.before, r.after, max(r.tolerance, 0), result)
	}
	w.Flush()
	return out.String()
}

// compare compares what is used with the beginning, with running and with stopped controllers. What is
// freed with a delay gets the time for it.
func (s *soak) compare(ctx context.Context, begin baseline) error {
	var running, stopped []row
	if !s.brief {
		if _, err := s.measureAtRest(ctx); err != nil {
			return err
		}
	}
	err := s.await(ctx, "compare with the beginning", func(ctx context.Context) error {
		end, err := s.measure(ctx)
		if err != nil {
			return err
		}
		running = rows("running", begin.running, end)
		if s.brief { // watches are kept for half a minute
			running = slices.DeleteFunc(running, func(r row) bool { return !strings.HasPrefix(r.what, "objects") })
		}
		return leaks(running)
	})
	if stop := s.stopControllers(); stop != nil {
		return errors.Join(err, stop)
	}
	err = errors.Join(err, s.await(ctx, "compare with the time before the controllers", func(ctx context.Context) error {
		end, err := s.measure(ctx)
		if err != nil {
			return err
		}
		stopped = slices.DeleteFunc(rows("stopped", begin.stopped, end), func(r row) bool {
			return strings.HasPrefix(r.what, "objects") || strings.HasPrefix(r.what, "watches") || strings.HasPrefix(r.what, "open watches") ||
				strings.HasPrefix(r.what, "heap")
		})
		return leaks(stopped)
	}))
	fmt.Printf("\n%s\n%d steps:", table(append(running, stopped...)), s.taken)
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Printf(" %d %s;", s.counts[name], name)
	}
	fmt.Println()
	return err
}
