package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// pace is how long a screen shows a result before the story goes on.
const pace = 2500 * time.Millisecond

// demoStory is the demo: chapters, one after the other, and what they share.
type demoStory struct {
	log  io.Writer
	tell func(any) // what happens, as a chapterMsg, view.World or endMsg
	pace time.Duration

	fail    context.CancelCauseFunc
	dir     string // for the data of all that is started
	plane   *embedded.ControlPlane
	cluster *follow.Cluster
	cloud   *cloud.Cloud
	target  follow.Target
	worlds  chan observe.World
	growing bool     // there is a tree to look at
	objects int      // how many objects it had
	closers []func() // take down what was set up, the last first
}

func newDemoStory(log io.Writer, tell func(any), pace time.Duration) *demoStory {
	return &demoStory{log: log, tell: tell, pace: pace, worlds: make(chan observe.World)}
}

// chapter is one step of the story.
type chapter struct {
	title string
	limit time.Duration
	// run returns what there is to say about it.
	run func(*demoStory, context.Context) (note string, err error)
}

var chapters = []chapter{
	{"Start an API server with etcd", 40 * time.Second, (*demoStory).startPlane},
	{"Start the controllers", 15 * time.Second, (*demoStory).startControllers},
	{"Apply the definitions", 20 * time.Second, (*demoStory).applyDefinitions},
	{"Create the three layers", 30 * time.Second, (*demoStory).createTop},
	{"Scale it behind our back", 10 * time.Second, (*demoStory).changeBottom},
	{"Delete the top", 20 * time.Second, (*demoStory).deleteTop},
}

// chapterMsg tells that a chapter has begun, or how it ended.
type chapterMsg struct {
	index int
	ended bool
	took  time.Duration
	note  string
	err   error
}

// outcome is what there is to say of how a chapter ended.
func (m chapterMsg) outcome() string {
	switch {
	case errors.Is(m.err, errInterrupted):
		return "interrupted"
	case m.err != nil:
		return "failed"
	}
	return m.note
}

// cleaningMsg tells that the story is over and is being cleaned up after, endMsg
// that nothing is left of it.
type (
	cleaningMsg struct{}
	endMsg      struct {
		took time.Duration
		err  error
	}
)

// run tells the story. Whatever happens, nothing of it runs on or is left when
// it returns.
func (s *demoStory) run(ctx context.Context) (err error) {
	begun := time.Now()
	ctx, s.fail = context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo is not done within %s", demoLimit))
	defer func() {
		s.tell(cleaningMsg{})
		took := time.Since(begun)
		for i := len(s.closers) - 1; i >= 0; i-- {
			s.closers[i]()
		}
		s.fail(nil)
		stop()
		s.tell(endMsg{took, err})
	}()
	for i, c := range chapters {
		if err := s.runChapter(ctx, i, c); err != nil {
			return err
		}
	}
	return nil
}

func (s *demoStory) runChapter(ctx context.Context, i int, c chapter) error {
	s.tell(chapterMsg{index: i})
	begun := time.Now()
	limited, stop := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("not done within %s", c.limit))
	defer stop()
	note, err := c.run(s, limited)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited) // what a step says of its end is not why
	}
	s.tell(chapterMsg{index: i, ended: true, took: time.Since(begun), note: note, err: err})
	switch {
	case errors.Is(err, errInterrupted):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", c.title, err)
	}
	return s.look(ctx)
}

// later remembers how to take down what has just been set up.
func (s *demoStory) later(takeDown func()) { s.closers = append(s.closers, takeDown) }

// await shows the tree as it changes until it is as wanted.
func (s *demoStory) await(ctx context.Context, wanted func(observe.World) bool) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case w := <-s.worlds:
			s.tell(w)
			if wanted(w) {
				return nil
			}
		}
	}
}

// look gives whoever watches a screen the time to read it.
func (s *demoStory) look(ctx context.Context) error {
	if s.pace == 0 || !s.growing {
		return nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, s.pace, errLooked)
	defer stop()
	err := s.await(ctx, func(observe.World) bool { return false })
	if errors.Is(err, errLooked) {
		return nil
	}
	return err
}

var errLooked = errors.New("it was shown for long enough")
