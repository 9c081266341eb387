package ui

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/page"
)

// Times of streams.
const (
	// sendInterval is the least time between two updates: faster changes are sent together.
	sendInterval = 100 * time.Millisecond
	// pauseFactor is how much longer a stream pauses than it took to compute an update: long lists must not keep a processor busy.
	pauseFactor = 5
	maxPause    = 5 * time.Second
	// aliveInterval is how often a stream without changes shows that it works. A viewer who has left without a word is noticed then.
	aliveInterval = 15 * time.Second
	// reachableInterval is how often a stream checks whether the API server answers; the check makes no request.
	reachableInterval = time.Second
	// programInterval is how often the watches of the running program are read, from its memory, while somebody sees them.
	programInterval = 2 * time.Second
	writeLimit      = 10 * time.Second // for one write to a viewer
	maxUpdate       = 8 << 20          // bytes of an update
)

// stream is an open stream.
type stream struct {
	stop   context.CancelFunc
	moved  chan struct{} // has room for one signal
	mu     sync.Mutex
	window page.Window
}

func (s *stream) move(w page.Window) {
	s.mu.Lock()
	s.window = w
	s.mu.Unlock()
	select {
	case s.moved <- struct{}{}:
	default: // a signal is pending
	}
}

func (s *stream) currentWindow() page.Window {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.window
}

// errEnded says that there is nothing more to follow.
var errEnded = errors.New("it has ended")

// view shows documents until the context ends or show fails.
type view func(ctx context.Context, c Cluster, of Ref, s *stream, show func(page.Document) error) error

// views are the streams by their names.
var views = map[string]view{
	"overview":    showOverview,
	"events":      showEvents,
	"definitions": showDefinitions,
	"definition":  showDefinition,
	"instances":   showInstances,
	"object":      showObject,
	"program":     showProgram,
}

// serveStream serves a view as server-sent events: "stream" with the stream's id, "update" with what has changed, "reachable"
// when the API server stops to answer and when it answers again, and "problem" or "retry" with a text, after which the stream ends:
// after "retry", a new one may show more. All watches of the view have ended when the request has.
func (s *Server) serveStream(v view) func(http.ResponseWriter, *http.Request, *Session) {
	return func(w http.ResponseWriter, r *http.Request, session *Session) {
		ctx, stop := context.WithDeadline(r.Context(), session.expires)
		defer stop()
		st := &stream{stop: stop, moved: make(chan struct{}, 1), window: page.Window{Limit: defaultWindow}}
		if raw := r.URL.Query().Get("window"); raw != "" && json.Unmarshal([]byte(raw), &st.window) != nil {
			http.Error(w, "the parameter window is not a window", http.StatusBadRequest)
			return
		}
		id := rand.Text()
		if !s.sessions.open(session, id, st) {
			http.Error(w, fmt.Sprintf("too many pages are open: %d for a viewer, %d for all", maxSessionStreams, maxStreams), http.StatusTooManyRequests)
			return
		}
		s.open.Add(1)
		defer s.open.Add(-1)
		defer s.sessions.close(session, id)
		w.Header().Set("Content-Type", "text/event-stream")
		out := &eventWriter{w: w, control: http.NewResponseController(w)}
		if out.event("stream", id) != nil {
			return
		}
		var alive sync.WaitGroup
		defer alive.Wait()
		defer stop()
		alive.Go(func() { out.keepAlive(ctx, stop, session.Cluster.IsReachable) })
		var sender page.Sender
		begun := false
		err := v(ctx, session.Cluster, refOf(r), st, func(d page.Document) error {
			begun = true
			update, changed, err := sender.Next(d)
			if err != nil || !changed {
				return err
			}
			return out.event("update", update)
		})
		var temporary *TemporaryError
		var forbidden *forbiddenError
		switch {
		case errors.Is(err, errEnded):
			_ = out.event("end", "") // the viewer may have left
		case err == nil || ctx.Err() != nil:
		case errors.As(err, &temporary), begun && errors.As(err, &forbidden): // an API server that starts refuses what it permits later
			_ = out.event("retry", err.Error()) // the same
		default:
			_ = out.event("problem", err.Error()) // the same
		}
	}
}

// defaultWindow is the number of rows that a list begins with.
const defaultWindow = 50

// eventWriter writes server-sent events.
type eventWriter struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
}

func (e *eventWriter) event(name string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if len(raw) > maxUpdate {
		return fmt.Errorf("there is more to show than %d MiB", maxUpdate>>20)
	}
	return e.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, raw)) // JSON has no line breaks
}

func (e *eventWriter) write(text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.control.SetWriteDeadline(time.Now().Add(writeLimit)) // writers of tests have none
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.control.Flush()
}

// keepAlive shows that the stream works, and whether the API server answers.
func (e *eventWriter) keepAlive(ctx context.Context, stop context.CancelFunc, isReachable func() bool) {
	alive, reachable := time.NewTicker(aliveInterval), time.NewTicker(reachableInterval)
	defer alive.Stop()
	defer reachable.Stop()
	was := true
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-alive.C:
			err = e.write(": alive\n\n")
		case <-reachable.C:
			if is := isReachable(); is != was {
				was = is
				err = e.event("reachable", is)
			}
		}
		if err != nil {
			stop()
			return
		}
	}
}

// showStates calls show for each state that read sends, and for each move of the window, not more often than every sendInterval.
func showStates[T any](ctx context.Context, s *stream, read func(context.Context, chan<- T) error, show func(T, bool) error) error {
	ctx, stop := context.WithCancel(ctx)
	states, ended := make(chan T), make(chan error, 1)
	var last T
	defer func() {
		stop()
		<-ended // all watches have ended
	}()
	done := make(chan error, 1)
	go func() {
		err := recovered(func() error { return read(ctx, states) })
		done <- err
		ended <- err
	}()
	begun, in := false, (<-chan T)(states)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		isNew := false
		select {
		case err := <-done:
			if err == nil {
				return errEnded
			}
			return err
		case <-pause.C:
			in = states
			continue
		case last = <-in:
			begun, isNew = true, true
		case <-s.moved:
			if !begun {
				continue
			}
		}
		before := time.Now()
		if err := show(last, isNew); err != nil {
			return err
		}
		if isNew {
			in = nil // moves are served meanwhile
			pause.Reset(min(max(sendInterval, pauseFactor*time.Since(before)), maxPause))
		}
	}
}

// recovered makes a panic an error: the program that serves the page has more to do.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the page has failed; this is a bug")
		}
	}()
	return f()
}

// showOverview shows the objects of a section, which the name of the reference is, or of all of them.
func showOverview(ctx context.Context, c Cluster, of Ref, s *stream, show func(page.Document) error) error {
	var list page.List
	read := func(ctx context.Context, states chan<- Objects) error { return c.Objects(ctx, of.Name, states) }
	return showStates(ctx, s, read, func(o Objects, isNew bool) error {
		if isNew {
			list.Set(o.Definitions, o.Others, time.Now())
		}
		return show(list.Document(s.currentWindow(), o.Problems...))
	})
}

func showDefinitions(ctx context.Context, c Cluster, _ Ref, s *stream, show func(page.Document) error) error {
	return showStates(ctx, s, c.Definitions, func(d Definitions, _ bool) error {
		return show(page.Overview(d.All, d.Problems, time.Now()))
	})
}

func showEvents(ctx context.Context, c Cluster, of Ref, s *stream, show func(page.Document) error) error {
	read := func(ctx context.Context, states chan<- []*unstructured.Unstructured) error {
		return c.Events(ctx, of, states)
	}
	return showStates(ctx, s, read, func(all []*unstructured.Unstructured, _ bool) error { return show(page.Events(all)) })
}

func showDefinition(ctx context.Context, c Cluster, of Ref, s *stream, show func(page.Document) error) error {
	read := func(ctx context.Context, states chan<- Definition) error { return c.Definition(ctx, of, states) }
	return showStates(ctx, s, read, func(d Definition, _ bool) error {
		return show(page.Definition(d.DefinitionFacts, d.Revisions, d.Problem, time.Now()))
	})
}

func showInstances(ctx context.Context, c Cluster, of Ref, s *stream, show func(page.Document) error) error {
	var list page.List
	read := func(ctx context.Context, states chan<- []*unstructured.Unstructured) error {
		return c.Instances(ctx, of, states)
	}
	return showStates(ctx, s, read, func(all []*unstructured.Unstructured, isNew bool) error {
		if isNew {
			list.Set(nil, all, time.Now())
		}
		return show(list.Document(s.currentWindow()))
	})
}

func showObject(ctx context.Context, c Cluster, of Ref, s *stream, show func(page.Document) error) error {
	read := func(ctx context.Context, states chan<- observe.ClusterState) error { return c.Tree(ctx, of, states) }
	return showStates(ctx, s, read, func(w observe.ClusterState, _ bool) error {
		return show(page.Instance(w, s.currentWindow(), time.Now()))
	})
}

func showProgram(ctx context.Context, c Cluster, _ Ref, _ *stream, show func(page.Document) error) error {
	ticker := time.NewTicker(programInterval)
	defer ticker.Stop()
	for {
		watches, queues, err := c.Program(ctx)
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if err := show(page.Watches(watches, queues, problem)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
