package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/observe"
)

var errTimeout = errors.New("timed out")

// watchDeletion requests a deletion and shows its progress. It starts to watch before it sends
// the request, so that it misses no event.
func watchDeletion(cmd *cobra.Command, request *deletionRequest, flags deleteFlags) error {
	begun, err := follow.Gather(cmd.Context(), request.Cluster, request.target)
	if err != nil {
		return err
	}
	printUnreadable(cmd.ErrOrStderr(), begun)
	request.target.UID = begun.Root.GetUID()
	progress := &deletionWatch{}
	watching := false
	err = request.watch(cmd.Context(), func(ctx context.Context, states <-chan observe.ClusterState) error {
		first, err := next(ctx, states)
		if err != nil {
			return err
		}
		if first.Root != nil {
			if _, err := request.send(ctx); err != nil {
				return err
			}
		}
		watching = true
		if flags.timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, flags.timeout, errTimeout)
			defer stop()
		}
		return showDeletion(ctx, cmd.OutOrStdout(), request.target.String(), flags.output, func(ctx context.Context, show func(deletionState) error) error {
			return progress.run(ctx, first, states, show)
		})
	})
	if !watching && err != nil {
		return err
	}
	to := cmd.OutOrStdout()
	if flags.output != tableOutput {
		to = io.Discard // the last document has the outcome
	}
	return progress.result(to, request.target.String(), flags.timeout, err)
}

func next(ctx context.Context, states <-chan observe.ClusterState) (observe.ClusterState, error) {
	select {
	case <-ctx.Done():
		return observe.ClusterState{}, context.Cause(ctx)
	case w := <-states:
		return w, nil
	}
}

// deletionState is the state of a deletion at one time.
type deletionState struct {
	cluster    observe.ClusterState
	progress   observe.Progress
	leftBehind []observe.BlockedObject
}

// deletionWatch observes a deletion.
type deletionWatch struct {
	tracker observe.ProgressTracker
	last    deletionState // with a tree
	gone    bool
}

// run shows each state of a deletion, beginning with first, until the instance is gone.
func (c *deletionWatch) run(ctx context.Context, first observe.ClusterState, states <-chan observe.ClusterState, show func(deletionState) error) error {
	if err := show(c.observe(first)); err != nil || c.gone {
		return err
	}
	return forEachState(ctx, states, func(w observe.ClusterState) error { return show(c.observe(w)) })
}

func (c *deletionWatch) observe(w observe.ClusterState) deletionState {
	if w.Root == nil {
		c.gone = true
		return deletionState{progress: c.tracker.Complete(), leftBehind: c.last.leftBehind}
	}
	tree := observe.Build(w, time.Now())
	now := deletionState{cluster: w, progress: c.tracker.Observe(tree), leftBehind: c.last.leftBehind}
	for _, more := range observe.FindBlockers(tree).LeftBehind {
		known := slices.ContainsFunc(now.leftBehind, func(b observe.BlockedObject) bool { return b.Object == more.Object })
		if !known {
			now.leftBehind = append(slices.Clip(now.leftBehind), more)
		}
	}
	c.last = now
	return now
}

// result prints how the watch ended, and returns its error.
func (c *deletionWatch) result(to io.Writer, title string, limit time.Duration, err error) error {
	now := time.Now()
	switch {
	case c.gone:
		fmt.Fprintln(prose(to), title+" is gone")
		fmt.Fprint(to, observe.LeftBehindText(c.last.leftBehind, now, widthOf(to)))
		return nil
	case errors.Is(err, errTimeout) && c.last.cluster.Root != nil:
		found := observe.FindBlockers(observe.Build(c.last.cluster, now))
		fmt.Fprint(to, "\n"+found.Text(now, widthOf(to)))
		switch blocking := found.CountBlocking(); {
		case blocking > 0:
			return &codedError{exitBlocked, fmt.Sprintf("%s is not gone within %s: %s blocking it", title, limit, diag.Counted(blocking, "object is", "objects are"))}
		case found.Remaining() != "":
			return &codedError{exitBlocked, fmt.Sprintf("%s is not gone within %s: %s", title, limit, found.Remaining())}
		case len(found.Blockers) > 0:
			return &codedError{exitUnfinished, fmt.Sprintf("%s is not gone within %s: the deletion goes on, and nothing blocks it", title, limit)}
		}
		return &codedError{exitUnfinished, fmt.Sprintf("%s is not gone within %s, and no blockers are known", title, limit)}
	case err == nil || errors.Is(err, context.Canceled):
		return fmt.Errorf("stopped watching; the deletion of %s goes on", title)
	}
	return fmt.Errorf("the deletion of %s was requested, but cannot be watched: %w", title, err)
}
