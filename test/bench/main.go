// Command bench measures requests, times and memory of the controllers, and compares them with
// budgets. Requests are counted by the API server, and times are also given as a ratio to a plain
// client that writes the same objects. It starts an API server, prints a table, and writes the
// results to a folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	program "github.com/espalier-dev/espalier/internal/manager"
)

type options struct {
	out        string
	only       string
	cpuprofile string
	full       bool
	strict     bool
	fsync      bool
	instances  int
	rounds     int
	workers    int
	idle       time.Duration
	initial    bool
	log        bool
}

func (o *options) parse() {
	flag.StringVar(&o.out, "out", "bench", "the folder that latest.json and README.md are written to")
	flag.StringVar(&o.only, "only", "", "measure only these scenarios, of "+strings.Join(names(), ", ")+"; no files are written")
	flag.StringVar(&o.cpuprofile, "cpuprofile", "", "write a CPU profile of this process, which runs the controllers, to this file")
	flag.BoolVar(&o.full, "full", false, "restart with 10,000 instances instead of 1,000")
	flag.BoolVar(&o.strict, "strict", false, "fail if a budget is exceeded")
	flag.BoolVar(&o.fsync, "fsync", false, "run etcd with fsync, as espalier up does")
	flag.IntVar(&o.instances, "instances", 300, "number of instances that are created concurrently")
	flag.IntVar(&o.rounds, "rounds", 5, "number of rounds of creations")
	flag.IntVar(&o.workers, "workers", 16, "number of workers of the controllers, of the plain client and of the simulated user")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "duration of the scenario without changes")
	flag.BoolVar(&o.initial, "initial-metadata", true, "let the API server give instances their finalizer and inventory")
	flag.BoolVar(&o.log, "log", false, "print the log of the controllers")
	flag.Parse()
}

// restarted is the number of instances in the scenario of a restart.
func (o *options) restarted() int {
	if o.full {
		return 10_000
	}
	return 1_000
}

// limit is the timeout of the run.
func (o *options) limit() time.Duration {
	if o.full {
		return time.Hour
	}
	return 15 * time.Minute
}

var errMissed = errors.New("a budget is exceeded")

func main() {
	program.TuneGC() // as espalier run does
	var o options
	o.parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, o.limit())
	err := run(ctx, o)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.cpuprofile != "" {
		file, err := os.Create(o.cpuprofile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.wanted(o.only) }) {
		return fmt.Errorf("-only %s: no such scenario; the scenarios are %s", o.only, strings.Join(names(), ", "))
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	for _, s := range scenarios {
		if !s.wanted(o.only) {
			continue
		}
		began := time.Now()
		if err := s.measure(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: measured in %.1f s\n", s.name, time.Since(began).Seconds())
	}
	report, err := b.report(ctx)
	if err != nil {
		return err
	}
	fmt.Print(report.text())
	if o.only == "" {
		if err := report.write(o.out); err != nil {
			return err
		}
	}
	if o.strict && report.missed() > 0 {
		return errMissed
	}
	return nil
}

// scenario is a measurement. Scenarios run in the order of the list, and each deletes the objects
// that it creates.
type scenario struct {
	name    string
	measure func(context.Context, *bench) error
}

var scenarios = []scenario{
	{"flat", measureFlat},
	{"composite", measureComposite},
	{"nest", measureNest},
	{"restart", measureRestart},
	{"forbidden", measureForbidden},
}

func names() []string {
	var out []string
	for _, s := range scenarios {
		out = append(out, s.name)
	}
	return out
}

func (s scenario) wanted(only string) bool {
	return only == "" || strings.Contains(","+only+",", ","+s.name+",")
}
