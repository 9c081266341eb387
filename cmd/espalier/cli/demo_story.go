package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// pace is how long a screen shows a result before the demo goes on.
const pace = 2500 * time.Millisecond

// demoCloud is the cloud that the demo's resources are in.
type demoCloud interface {
	// start starts the cloud, and returns its provider and a note on the cloud.
	start(context.Context, *demoStory) (provider managed.Provider, note string, err error)
	// configuration returns the objects that the provider needs.
	configuration() []*unstructured.Unstructured
	// folder has the manifests, limit bounds the whole demo without the cleanup.
	folder() string
	limit() time.Duration
	// changeBottom scales the cluster in the cloud, three layers below the top, and returns a note
	// on what came of it.
	changeBottom(context.Context, *demoStory) (note string, err error)
	// hasGroup reports whether the cloud's managed resources have an API group.
	hasGroup(group string) bool
	// countLeft counts the external resources of the example.
	countLeft(context.Context) (int, error)
	// next is a command for what the reader can do next, and what it does.
	next() (command, text string)
}

// demoStory runs the chapters of the demo, one after the other.
type demoStory struct {
	log  io.Writer
	send func(any) // what happens, a chapterMsg, observe.ClusterState, factMsg, cleaningMsg or endMsg
	pace time.Duration

	fail      context.CancelCauseFunc
	dir       string // data directory
	plane     *embedded.ControlPlane
	cluster   *follow.Cluster
	cloud     demoCloud
	target    follow.Target
	states    chan observe.ClusterState
	following bool     // there is a tree to show
	objects   int      // how many objects it had
	closers   []func() // clean up, the last one first
}

func newDemoStory(of demoCloud, log io.Writer, tell func(any), pace time.Duration) *demoStory {
	return &demoStory{cloud: of, log: log, send: tell, pace: pace, states: make(chan observe.ClusterState)}
}

// chapter is one step of the story.
type chapter struct {
	title string
	limit time.Duration
	// run returns a note on the outcome.
	run func(*demoStory, context.Context) (note string, err error)
}

var chapters = []chapter{
	{"Start an API server with etcd", 40 * time.Second, (*demoStory).startPlane},
	{"Start the controllers", 40 * time.Second, (*demoStory).startControllers},
	{"Apply the definitions", 20 * time.Second, (*demoStory).applyDefinitions},
	{"Create the three layers", 30 * time.Second, (*demoStory).createTop},
	{"Scale it behind our back", 10 * time.Second, func(s *demoStory, ctx context.Context) (string, error) { return s.cloud.changeBottom(ctx, s) }},
	{"Delete the top", 20 * time.Second, (*demoStory).deleteTop},
}

// chapterMsg says that a chapter has begun or ended.
type chapterMsg struct {
	index int
	ended bool
	took  time.Duration
	note  string
	err   error
}

// factMsg is what the cloud itself says about the example.
type factMsg string

// outcome describes how a chapter ended.
func (m chapterMsg) outcome() string {
	switch {
	case errors.Is(m.err, errInterrupted):
		return "interrupted"
	case m.err != nil:
		return "failed"
	}
	return m.note
}

// cleaningMsg says that the demo is over and cleans up, endMsg that it has cleaned up.
type (
	cleaningMsg struct{}
	endMsg      struct {
		took time.Duration
		err  error
	}
)

// run runs the chapters. It always cleans up before it returns.
func (s *demoStory) run(ctx context.Context) (err error) {
	begun := time.Now()
	ctx, s.fail = context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeoutCause(ctx, s.cloud.limit(), fmt.Errorf("the demo is not done within %s", s.cloud.limit()))
	defer func() {
		s.send(cleaningMsg{})
		took := time.Since(begun)
		for i := len(s.closers) - 1; i >= 0; i-- {
			s.closers[i]()
		}
		s.fail(nil)
		stop()
		s.send(endMsg{took, err})
	}()
	for i, c := range chapters {
		if err := s.runChapter(ctx, i, c); err != nil {
			return err
		}
	}
	return nil
}

func (s *demoStory) runChapter(ctx context.Context, i int, c chapter) error {
	s.send(chapterMsg{index: i})
	begun := time.Now()
	limited, stop := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("not done within %s", c.limit))
	defer stop()
	note, err := c.run(s, limited)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited) // the cause, and not what the step returned when it was cancelled
	}
	s.send(chapterMsg{index: i, ended: true, took: time.Since(begun), note: note, err: err})
	switch {
	case errors.Is(err, errInterrupted):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", c.title, err)
	}
	return s.pauseForReader(ctx)
}

// addCleanup adds a function that cleans up what has just been set up.
func (s *demoStory) addCleanup(cleanup func()) { s.closers = append(s.closers, cleanup) }

// await shows the tree as it changes, until wanted is true.
func (s *demoStory) await(ctx context.Context, wanted func(observe.ClusterState) bool) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case w := <-s.states:
			s.send(w)
			if wanted(w) {
				return nil
			}
		}
	}
}

// pauseForReader shows the tree on a screen for the length of pace.
func (s *demoStory) pauseForReader(ctx context.Context) error {
	if s.pace == 0 || !s.following {
		return nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, s.pace, errPauseOver)
	defer stop()
	err := s.await(ctx, func(observe.ClusterState) bool { return false })
	if errors.Is(err, errPauseOver) {
		return nil
	}
	return err
}

var errPauseOver = errors.New("pause over")
