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

type overlayWatch struct {
	call
	selection
	events *queue
	shown  map[key]bool // guarded by the overlay's lock: planned objects that were sent
}

// The server's events of objects that would be changed are left out: the overlay sends their planned state.
func (c call) watch() (*http.Response, error) {
	if isTrue(c.request.URL.Query().Get("sendInitialEvents")) {
		const why = "dry run: lists are not streamed"
		return failureAnswer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why, nil).response(c.request), nil // the client lists instead
	}
	s, err := c.selection()
	if err != nil {
		return c.badRequest(err).response(c.request), nil
	}
	w := &overlayWatch{call: c, selection: s, events: newQueue(), shown: map[key]bool{}}
	response := answer{code: http.StatusOK}.response(c.request)
	if c.overlay.installedKind(c.info.resource) == nil {
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
		stop = func() { _ = upstream.Close() } // no longer read
	}
	out, in := io.Pipe()
	end := sync.OnceFunc(func() {
		c.overlay.removeWatch(w)
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
	response.Body, response.ContentLength = closingReader{out, end}, -1
	c.overlay.addWatch(w)
	return response, nil
}

// closingReader is a response body. Its Close ends the watch.
type closingReader struct {
	io.Reader
	end func()
}

// Close implements io.Closer.
func (c closingReader) Close() error {
	c.end()
	return nil
}

type event struct {
	Type   apiwatch.EventType `json:"type"`
	Object json.RawMessage    `json:"object"`
}

func (w *overlayWatch) relay(body io.ReadCloser) {
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
			k := key{w.call.info.resource.Group, w.call.info.resource.Resource, o.Metadata.Namespace, o.Metadata.Name}
			if _, changed := w.overlay.lookup(k); changed {
				continue
			}
		}
		w.events.add(line)
	}
}

// The watch is sent the planned objects, and from then on each change. Objects that Store added have not changed since they were listed.
func (o *Overlay) addWatch(w *overlayWatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watches[w] = true
	for k, e := range o.entries {
		if now, changed := e.snapshot(); changed && e.order > 0 {
			w.show(k, now, now)
		}
	}
}

func (o *Overlay) removeWatch(w *overlayWatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.watches, w)
}

// The overlay's lock is held.
func (w *overlayWatch) show(k key, last, now *unstructured.Unstructured) {
	e, o := event{Type: apiwatch.Modified}, now
	switch {
	case now != nil && w.selection.matches(k, now):
		w.shown[k] = true
	case last != nil && (w.shown[k] || w.selection.matches(k, last)):
		e.Type, o = apiwatch.Deleted, last
		if now != nil {
			o = now
		}
		delete(w.shown, k)
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

type queue struct {
	mu     sync.Mutex
	filled *sync.Cond
	lines  [][]byte
	ended  bool // no more lines follow those in the queue
	closed bool // the remaining lines are dropped
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

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0
	}
	return len(q.lines)
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

// It returns nil at the end.
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
