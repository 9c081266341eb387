// Command bench measures requests, times and memory of the controllers, and compares them with
// budgets. Requests are counted by the API server, and times are also given as a ratio to a plain
// client that writes the same objects. It starts an API server, prints a table, and writes the
// results to a folder. With -scale, it measures instead how these costs grow with the numbers of
// instances, children and definitions, and what deep nests cost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	program "github.com/espalier-dev/espalier/internal/program/manager"
)

type options struct {
	out         string
	only        string
	cpuprofile  string
	memprofiles string
	note        string
	full        bool
	strict      bool
	fsync       bool
	instances   int
	rounds      int
	workers     int
	idle        time.Duration
	log         bool
	scale       bool
	sizes       sizes
	children    sizes
}

func (o *options) parse() {
	o.sizes, o.children = sizes{100, 1000, 10_000}, sizes{100, 1000, 5000}
	flag.StringVar(&o.out, "out", "bench", "the folder that latest.json and README.md are written to; with -scale scale.json, SCALE.md and charts")
	flag.StringVar(&o.only, "only", "", "measure only these scenarios, of "+strings.Join(names(scenarios),
		", ")+", or with -scale of "+strings.Join(names(scaleScenarios), ", ")+"; no files are written")
	flag.BoolVar(&o.scale, "scale", false, "measure how costs grow with the numbers of instances, children and definitions")
	flag.Var(&o.sizes, "sizes", "with -scale, the numbers of instances")
	flag.Var(&o.children, "children", "with -scale, the numbers of children of one instance")
	flag.StringVar(&o.note, "note", "", "with -scale, a sentence about the circumstances of the run, for SCALE.md")
	flag.StringVar(&o.memprofiles, "memprofiles", "", "with -scale, write heap profiles with few and with 100 definitions to this folder")
	flag.StringVar(&o.cpuprofile, "cpuprofile", "", "write a CPU profile of this process, which runs the controllers, to this file")
	flag.BoolVar(&o.full, "full", false, "restart with 10,000 instances instead of 1,000, and let the other tenant of the scenario fairness change as many")
	flag.BoolVar(&o.strict, "strict", false, "fail if a budget is exceeded")
	flag.BoolVar(&o.fsync, "fsync", true, "run etcd with fsync, as espalier up does; -fsync=false makes times independent of the disk")
	flag.IntVar(&o.instances, "instances", 300, "number of instances that are created concurrently")
	flag.IntVar(&o.rounds, "rounds", 5, "number of rounds of creations")
	flag.IntVar(&o.workers, "workers", 16, "number of workers of the controllers, of the plain client and of the simulated user")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "duration of the scenario without changes")
	flag.BoolVar(&o.log, "log", false, "print the log of the controllers")
	flag.Parse()
}

// memProfileRate is the number of bytes allocated for each sample of a heap profile: few enough to see
// what a single definition weighs, and many enough to leave the controllers their speed.
const memProfileRate = 4096

// restarted is the number of instances in the scenario of a restart.
func (o *options) restarted() int {
	if o.full {
		return 10_000
	}
	return 1_000
}

// limit is the timeout of the run.
func (o *options) limit() time.Duration {
	if o.full || o.scale {
		return time.Hour
	}
	return 15 * time.Minute
}

// waitTimeout is the timeout of each wait, which may be for all instances.
func (o *options) waitTimeout() time.Duration { return o.limit() / 3 }

// wanted returns the scenarios to measure.
func (o *options) wanted() ([]scenario, error) {
	all := scenarios
	if o.scale {
		all = scaleScenarios
	}
	wanted := slices.DeleteFunc(slices.Clone(all), func(s scenario) bool { return !s.wanted(o.only) })
	if len(wanted) == 0 {
		return nil, fmt.Errorf("-only %s: no such scenario; the scenarios are %s", o.only, strings.Join(names(all), ", "))
	}
	return wanted, nil
}

var errMissed = errors.New("a budget is exceeded")

func main() {
	program.TuneGC() // as espalier run does
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var o options
	o.parse()
	if o.memprofiles != "" {
		runtime.MemProfileRate = memProfileRate
	}
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
	wanted, err := o.wanted()
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	for _, s := range wanted {
		began := time.Now()
		if err := s.measure(ctx, b); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			return errors.Join(err, b.saveUnfinished(err))
		}
		fmt.Fprintf(os.Stderr, "%s: measured in %.1f s\n", s.name, time.Since(began).Seconds())
	}
	report, err := b.result(ctx)
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

// result is what a run found: the report, or with -scale that of the growth.
type result interface {
	text() string
	write(dir string) error
	missed() int
}

func (b *bench) result(ctx context.Context) (result, error) {
	if b.scale {
		return b.scaleReport(ctx)
	}
	return b.report(ctx)
}

// saveUnfinished prints and writes what a run with -scale found before it failed, which took long.
func (b *bench) saveUnfinished(reason error) error {
	if !b.scale {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	report, err := b.scaleReport(ctx)
	if err != nil {
		return err
	}
	report.Unfinished = reason.Error()
	fmt.Print(report.text())
	if b.only != "" {
		return nil
	}
	return report.write(b.out)
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
	{"graph", measureGraph},
	{"nest", measureNest},
	{"restart", measureRestart},
	{"fairness", measureFairness},
	{"forbidden", measureForbidden},
}

func names(of []scenario) []string {
	var out []string
	for _, s := range of {
		out = append(out, s.name)
	}
	return out
}

func (s scenario) wanted(only string) bool {
	return only == "" || strings.Contains(","+only+",", ","+s.name+",")
}
