// Command soak runs the controllers for a long time while definitions, instances and children change
// at random, the controllers and the API server restart, and the clock jumps. After each round it
// mends what it has broken and compares the cluster with what must then be there. At the end it
// deletes everything and compares what is used, in this process and on the API server, with the
// beginning. It starts an API server of its own. With -faults the controllers reach it through a
// proxy that misbehaves during the rounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// options are the size of a run.
type options struct {
	duration time.Duration
	seed     uint64
	steps    int
	pause    time.Duration
	// patience bounds each wait. A wait that succeeds ends at once.
	patience time.Duration
	log      string
	// brief leaves out what takes minutes: the comparison while the controllers run, and restarts
	// of the API server.
	brief bool
	// faults are what a proxy between the controllers and the API server does wrong; there is none without any.
	faults []string
}

func main() {
	var o options
	flag.DurationVar(&o.duration, "for", 20*time.Minute, "no round begins after this time")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano())%1_000_000,
		"the seed of the steps; they are the same with the same seed, -steps and -for, as far as no time plays a part")
	flag.IntVar(&o.steps, "steps", 120, "number of steps in a round, which ends with a comparison")
	flag.DurationVar(&o.pause, "pause", time.Second, "longest pause between two steps")
	flag.DurationVar(&o.patience, "patience", 3*time.Minute, "longest wait for a state that must come about")
	flag.BoolVar(&o.brief, "brief", false, "do not restart the API server, nor wait for its watches to be compared")
	flag.Func("faults", "what a proxy before the API server does wrong: all, or names with commas", func(text string) (err error) {
		o.faults, err = parseFaults(text)
		return err
	})
	flag.StringVar(&o.log, "log", "", "the file for the steps and the log of the controllers; by default in the directory for temporary files")
	flag.Parse()
	if o.log == "" {
		o.log = filepath.Join(os.TempDir(), fmt.Sprintf("espalier-soak-%d.log", o.seed))
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}
