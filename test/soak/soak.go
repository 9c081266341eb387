package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
)

// soak is one run.
type soak struct {
	options
	random *rand.Rand
	log    *journal
	model  *model
	clock  clock

	dir       string
	plane     *embedded.ControlPlane
	proxy     *proxy // nil without faults
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface

	controllers *controllers
	// killed are controllers that were cut off, and may not have ended yet.
	killed []*controllers
	// withFinalizer are objects with a finalizer of another controller.
	withFinalizer []key
	taken         int
	counts        map[string]int
}

// run is a whole run. It returns an error that says all that is wrong.
func run(ctx context.Context, o options) (err error) {
	s := &soak{options: o, random: rand.New(rand.NewPCG(o.seed, 0)), counts: map[string]int{}}
	if s.log, err = openJournal(o.log); err != nil {
		return err
	}
	defer s.log.file.Close()
	fmt.Printf("seed %d, the log is %s\n", o.seed, o.log)
	if s.dir, err = os.MkdirTemp("", "espalier-soak-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	if err := s.startPlane(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stopPlane(false)) }()
	if len(o.faults) > 0 {
		if s.proxy, err = startProxy(s.plane.Config()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.proxy.close()) }()
	}
	if err := s.soak(ctx); err != nil {
		return fmt.Errorf("seed %d, after %d steps: %w\nthe last steps:\n%s", o.seed, s.taken, errors.Join(err, s.stopControllers()), s.log.lastSteps())
	}
	return nil
}

func (s *soak) soak(ctx context.Context) (err error) {
	if s.client, err = dynamic.NewForConfig(s.plane.Config()); err != nil {
		return err
	}
	if s.discovery, err = discovery.NewDiscoveryClientForConfig(s.plane.Config()); err != nil {
		return err
	}
	began := time.Now()
	warm, err := s.warmUp(ctx)
	if err != nil {
		return err
	}
	for round := 1; round == 1 || time.Since(began) < s.duration; round++ {
		if err := s.round(ctx, round); err != nil {
			return err
		}
	}
	if err := s.deleteAll(ctx); err != nil {
		return err
	}
	return s.compare(ctx, warm)
}

// baseline is what was used before the rounds: while the controllers run, and while none do.
type baseline struct{ running, stopped usage }

// warmUp lets everything happen once that happens once: it creates one instance of each kind and
// deletes everything. Then it measures what is used.
func (s *soak) warmUp(ctx context.Context) (b baseline, err error) {
	if b.stopped, err = s.measure(ctx); err != nil {
		return b, err
	}
	s.model = newModel(s.random)
	if err := s.startControllers(ctx); err != nil {
		return b, err
	}
	for _, k := range s.model.kinds {
		i := &instance{key: key{k.kind, namespaceName(0), "warm"}, changed: true}
		i.draw(s.random)
		s.model.instances = append(s.model.instances, i)
	}
	if err := s.checkpoint(ctx); err != nil {
		return b, err
	}
	if err := s.deleteAll(ctx); err != nil {
		return b, err
	}
	if s.brief {
		b.running, err = s.measure(ctx)
		return b, err
	}
	b.running, err = s.measureAtRest(ctx)
	return b, err
}

// round is a sequence of steps, and the comparison after it.
func (s *soak) round(ctx context.Context, n int) error {
	began := time.Now()
	s.model.redraw(s.random)
	if err := s.await(ctx, "prepare a round", s.mend); err != nil {
		return err
	}
	restart := s.random.IntN(s.steps)
	for i := range s.steps {
		next := s.draw()
		if i == restart {
			next = step{"restart the controllers", 1, s.restartControllers}
		}
		s.taken++
		s.counts[next.name]++
		outcome, err := next.do(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
		s.log.step("%d: %s %s", s.taken, next.name, outcome)
		if !pauseFor(ctx, time.Duration(s.random.Int64N(int64(s.pause)))) {
			return context.Cause(ctx)
		}
	}
	took := time.Since(began)
	if err := s.checkpoint(ctx); err != nil {
		return err
	}
	u, err := s.measure(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("round %d: %d steps in %.0f s, %d instances with %d objects compared after %.1f s; %s\n",
		n, s.steps, took.Seconds(), len(s.model.instances), len(s.model.expected())-len(s.model.instances), time.Since(began).Seconds()-took.Seconds(), u)
	return s.log.failure()
}
