package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/observe"
)

var errTooLate = errors.New("it took too long")

// watchDeletion asks for a deletion and shows how it goes. It watches before it
// asks, so that nothing is missed.
func watchDeletion(cmd *cobra.Command, asked *request, flags deleteFlags) error {
	begun, err := asked.Gather(cmd.Context(), asked.target)
	if err != nil {
		return err
	}
	asked.target.UID = begun.Root.GetUID()
	course := &course{}
	sent := false
	err = asked.watch(cmd.Context(), func(ctx context.Context, worlds <-chan observe.World) error {
		first, err := next(ctx, worlds)
		if err != nil {
			return err
		}
		if first.Root != nil {
			if _, err := asked.send(ctx); err != nil {
				return err
			}
		}
		sent = true
		if flags.timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, flags.timeout, errTooLate)
			defer stop()
		}
		return showDeletion(ctx, cmd.OutOrStdout(), asked.target.String(), flags.output, func(ctx context.Context, show func(moment) error) error {
			return course.run(ctx, first, worlds, show)
		})
	})
	if !sent && err != nil {
		return err
	}
	to := cmd.OutOrStdout()
	if flags.output == "json" {
		to = io.Discard // the last document has said it
	}
	return course.outcome(to, asked.target.String(), flags.timeout, err)
}

func next(ctx context.Context, worlds <-chan observe.World) (observe.World, error) {
	select {
	case <-ctx.Done():
		return observe.World{}, context.Cause(ctx)
	case w := <-worlds:
		return w, nil
	}
}

// moment is what is known of a deletion at one time.
type moment struct {
	world    observe.World
	progress observe.Progress
	left     []observe.Blocked
}

// course is how a deletion went.
type course struct {
	tally observe.Tally
	last  moment // with a tree
	gone  bool
}

// run shows each moment of a deletion, from its first, until it is over.
func (c *course) run(ctx context.Context, first observe.World, worlds <-chan observe.World, show func(moment) error) error {
	if err := show(c.see(first)); err != nil || c.gone {
		return err
	}
	return eachWorld(ctx, worlds, func(w observe.World) error { return show(c.see(w)) })
}

func (c *course) see(w observe.World) moment {
	if w.Root == nil {
		c.gone = true
		return moment{progress: c.tally.End(), left: c.last.left}
	}
	tree := observe.Build(w, time.Now())
	now := moment{world: w, progress: c.tally.See(tree), left: c.last.left}
	for _, more := range observe.HoldupOf(tree).LeftBehind {
		known := slices.ContainsFunc(now.left, func(b observe.Blocked) bool { return b.Object == more.Object })
		if !known {
			now.left = append(slices.Clip(now.left), more)
		}
	}
	c.last = now
	return now
}

// outcome says how the watching ended.
func (c *course) outcome(to io.Writer, title string, limit time.Duration, err error) error {
	now := time.Now()
	switch {
	case c.gone:
		fmt.Fprintln(to, title+" is gone")
		fmt.Fprint(to, observe.LeftBehind(c.last.left, now))
		return nil
	case errors.Is(err, errTooLate) && c.last.world.Root != nil:
		found := observe.HoldupOf(observe.Build(c.last.world, now))
		fmt.Fprint(to, "\n"+found.Text(now))
		if len(found.Blockers) > 0 {
			return &codedError{exitBlocked, fmt.Sprintf("%s is not gone within %s: %s", title, limit, counted(len(found.Blockers), "object is", "objects are")+" in the way")}
		}
		return &codedError{exitUnfinished, fmt.Sprintf("%s is not gone within %s, and nothing is known to hold it up", title, limit)}
	case err == nil || errors.Is(err, context.Canceled):
		return fmt.Errorf("no longer watched; the deletion of %s goes on", title)
	}
	return fmt.Errorf("the deletion of %s was asked for, but can't be watched: %w", title, err)
}
