package definitions

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// watches lets tests hold back what the controllers' watches of an API group receive.
var watches lateWatches

type lateWatches struct {
	mu   sync.Mutex
	held map[string]chan struct{} // by API group; closed when the events are delivered
}

// hold holds back the events of a group until release is called.
func (l *lateWatches) hold(group string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	released := make(chan struct{})
	l.held[group] = released
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, group)
		close(released)
	})
}

// released returns a channel that is closed once the events of a group are delivered; nil if they are now.
func (l *lateWatches) released(group string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[group]
}

// wrap is for rest.Config.WrapTransport.
func (l *lateWatches) wrap(inner http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		answer, err := inner.RoundTrip(r)
		if group, _, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/"); err == nil && found && r.URL.Query().Get("watch") == "true" {
			answer.Body = &lateBody{ReadCloser: answer.Body, watches: l, group: group, closed: make(chan struct{})}
		}
		return answer, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// lateBody is the body of a watch, of which nothing can be read while its group is held.
type lateBody struct {
	io.ReadCloser
	watches *lateWatches
	group   string
	once    sync.Once
	closed  chan struct{}
}

func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if released := b.watches.released(b.group); released != nil {
		select {
		case <-released:
		case <-b.closed:
		}
	}
	return n, err
}

func (b *lateBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
