package dryrun

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// watching is a watch that shows the overlay.
type watching struct {
	call
	selection
	events *queue
	known  map[key]bool // guarded by the overlay's lock: changed objects that were shown
}

// watch answers with the events of a collection as it would be. What the server tells of
// objects that would be changed is left out: they are shown as they would be.
func (c call) watch() (*http.Response, error) {
	if isTrue(c.request.URL.Query().Get("sendInitialEvents")) {
		const why = "dry run: lists are not streamed"
		return refused(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why, nil).to(c.request), nil // the client lists instead
	}
	s, err := c.selection()
	if err != nil {
		return nil, err
	}
	w := &watching{call: c, selection: s, events: newQueue(), known: map[key]bool{}}
	response := answer{code: http.StatusOK}.to(c.request)
	if _, ok := c.overlay.installedKind(c.at.resource); !ok {
		r := c.request.Clone(c.request.Context())
		r.Header.Set("Accept", "application/json")
		r.URL.RawQuery = c.query().Encode()
		if response, err = c.next.RoundTrip(r); err != nil || response.StatusCode != http.StatusOK {
			return response, err
		}
		go w.relay(response.Body)
	}
	stop := func() {}
	if response.Body != nil {
		upstream := response.Body
		stop = func() { _ = upstream.Close() } // nobody reads it any more
	}
	out, in := io.Pipe()
	end := sync.OnceFunc(func() {
		c.overlay.forget(w)
		w.events.close()
		stop()
		_ = out.Close() // a pipe's ends close without errors
	})
	go func() {
		defer end()
		for line := w.events.next(); line != nil; line = w.events.next() {
			if _, err := in.Write(line); err != nil {
				return
			}
		}
		_ = in.Close() // likewise
	}()
	go func() {
		<-c.request.Context().Done()
		end()
	}()
	response.Body, response.ContentLength = closing{out, end}, -1
	c.overlay.begin(w)
	return response, nil
}

// closing is a body that ends what feeds it.
type closing struct {
	io.Reader
	end func()
}

// Close implements io.Closer.
func (c closing) Close() error {
	c.end()
	return nil
}

// event is one line of a watch.
type event struct {
	Type   apiwatch.EventType `json:"type"`
	Object json.RawMessage    `json:"object"`
}

// relay passes on the server's events.
func (w *watching) relay(body io.ReadCloser) {
	defer w.events.end()
	defer body.Close()
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var e event
		var o struct{ Metadata metav1.ObjectMeta }
		if json.Unmarshal(line, &e) != nil || json.Unmarshal(e.Object, &o) != nil {
			return
		}
		w.overlay.observeRevision(o.Metadata.ResourceVersion)
		if e.Type == apiwatch.Added || e.Type == apiwatch.Modified || e.Type == apiwatch.Deleted {
			k := key{w.call.at.resource.Group, w.call.at.resource.Resource, o.Metadata.Namespace, o.Metadata.Name}
			if _, changed := w.overlay.lookup(k); changed {
				continue
			}
		}
		w.events.add(line)
	}
}

// begin shows a watch what would be changed already, and from then on each change.
func (o *Overlay) begin(w *watching) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watches[w] = true
	for k, e := range o.entries {
		if now, changed := e.current(); changed {
			w.show(k, now, now)
		}
	}
}

func (o *Overlay) forget(w *watching) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.watches, w)
}

// show adds an event. The overlay's lock is held.
func (w *watching) show(k key, last, now *unstructured.Unstructured) {
	e, o := event{Type: apiwatch.Modified}, now
	switch {
	case now != nil && w.selection.matches(k, now):
		w.known[k] = true
	case last != nil && (w.known[k] || w.selection.matches(k, last)):
		e.Type, o = apiwatch.Deleted, last
		if now != nil {
			o = now
		}
		delete(w.known, k)
	default:
		return
	}
	raw, err := w.inVersion(o).MarshalJSON()
	if err != nil {
		return
	}
	e.Object = raw
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	w.events.add(append(line, '\n'))
}

// queue holds lines until somebody reads them.
type queue struct {
	mu     sync.Mutex
	filled *sync.Cond
	lines  [][]byte
	ended  bool // after what is in it
	closed bool // at once
}

func newQueue() *queue {
	q := &queue{}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *queue) add(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, line)
	q.filled.Signal()
}

func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.filled.Signal()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}

// next waits for a line; nil if there will be none.
func (q *queue) next() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 && !q.ended && !q.closed {
		q.filled.Wait()
	}
	if q.closed || len(q.lines) == 0 {
		return nil
	}
	line := q.lines[0]
	q.lines = q.lines[1:]
	return line
}
