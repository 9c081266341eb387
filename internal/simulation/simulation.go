// Package simulation runs the controllers over a cluster that they must not change, to see what they
// would do. Their requests go through a dryrun.Overlay, which has the API server check what they write
// and keeps it from being stored.
// See docs/design/0016-the-controllers-without-effect.md.
package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// How it is decided that the controllers have nothing to do: nothing is queued or due within the quiet
// period, no request is in flight, and none was made for the quiet period.
const (
	quietPeriod  = time.Second
	pollInterval = 50 * time.Millisecond
)

// Controllers are what a Simulation runs.
type Controllers interface {
	// Run runs the controllers until the context ends.
	Run(ctx context.Context) error
	// CheckStarted returns nil once the controllers run, and why they do not before that.
	CheckStarted() error
	// Idle reports whether no reconcile is queued or running, or due within the given time.
	Idle(within time.Duration) bool
}

// Simulation runs controllers whose requests go through an overlay.
type Simulation struct {
	Controllers Controllers
	Overlay     *dryrun.Overlay
	// Quiet is for how long no request is made by controllers that are idle; by default a second.
	Quiet time.Duration
}

// Step is what a simulation does while its controllers are idle, or still busy at the timeout. It
// returns whether the controllers are to become idle again, after which it is called again.
type Step func(ctx context.Context, settled bool) (again bool, err error)

// Run runs the controllers and calls the step each time that they are idle, until it is done. The
// timeout bounds all of it together: once it has passed, the step is called with settled false, and
// no more waits follow.
func (s Simulation) Run(ctx context.Context, timeout time.Duration, step Step) error {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Controllers.Run(ctx) }()
	deadline := time.Now().Add(timeout)
	again, err := true, error(nil)
	for again && err == nil {
		var unsettled bool
		a := activity{s.Controllers.CheckStarted, s.Overlay.RequestCounts, s.Controllers.Idle, cmp.Or(s.Quiet, quietPeriod)}
		if unsettled, err = awaitIdle(ctx, a, ended, time.Until(deadline), timeout); err == nil {
			again, err = step(ctx, !unsettled)
			again = again && !unsettled
		}
	}
	stop()
	if failed := <-ended; err == nil && failed != nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	return err
}

// RefuseHeld returns an error if a Hold keeps the controllers from doing anything.
func RefuseHeld(ctx context.Context, client dynamic.Interface) error {
	list, err := client.Resource(espalier.GroupVersion.WithResource("holds")).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return nil // the kind is most likely not installed yet
	}
	return fmt.Errorf("the Hold %s suspends the controllers; delete it first", list.Items[0].GetName())
}

// activity reports what controllers are doing.
type activity struct {
	// serving returns nil once they run.
	serving func() error
	// busy returns how many requests are in flight, and how many were made so far.
	busy func() (pending int, made uint64)
	// idle reports whether nothing is queued, or due within a time.
	idle func(within time.Duration) bool
	// quiet is for how long all of that has to last.
	quiet time.Duration
}

// awaitIdle waits until the controllers have nothing to do, or reports them as unsettled after what
// is left of the timeout. It leaves a value in the channel for the caller that waits for Run's end.
func awaitIdle(ctx context.Context, a activity, ended chan error, left, timeout time.Duration) (unsettled bool, err error) {
	deadline := time.NewTimer(left)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var made uint64
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case err := <-ended:
			ended <- nil
			if err == nil {
				err = errors.New("the controllers ended")
			}
			return false, err
		case <-deadline.C:
			if why := a.serving(); why != nil {
				return false, fmt.Errorf("after %s: %w", timeout, why)
			}
			return true, nil
		case <-tick.C:
		}
		pending, now := a.busy()
		if a.serving() != nil || pending > 0 || now != made || !a.idle(a.quiet) {
			made, since = now, time.Now()
			continue
		}
		if time.Since(since) >= a.quiet {
			return false, nil
		}
	}
}

// Failures records the objects whose last reconcile failed. It is safe for concurrent use.
type Failures struct {
	mu     sync.Mutex
	failed map[object.Key]string
}

// Observe records the result of a reconcile.
func (f *Failures) Observe(run reconcile.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.failed, run.Key)
	if run.Err != nil && !errors.Is(run.Err, context.Canceled) {
		if f.failed == nil {
			f.failed = map[object.Key]string{}
		}
		f.failed[run.Key] = kube.RedactedMessage(run.Err)
	}
}

// Messages are the errors by object.
func (f *Failures) Messages() map[object.Key]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.failed)
}
