package kube

import (
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// RetryInitializing returns a copy of the configuration whose reads don't sit out the
// second for which the API server sends clients away from a kind that is only
// just being served: its storage takes a few milliseconds.
func RetryInitializing(config *rest.Config) *rest.Config {
	prompt := rest.CopyConfig(config)
	prompt.Wrap(func(next http.RoundTripper) http.RoundTripper { return initializingRetrier{next} })
	return prompt
}

type initializingRetrier struct{ next http.RoundTripper }

// The request is repeated after 10, 20, … 320 milliseconds; then the answer is
// passed on, without the advice to come back later, which the client would heed
// ten times before it told anybody: whose storage isn't ready by then may have a
// conversion that fails, and somebody should hear of it.
const (
	firstRepeat = 10 * time.Millisecond
	repeats     = 6
)

func (p initializingRetrier) RoundTrip(r *http.Request) (*http.Response, error) {
	delay := firstRepeat
	for n := 0; ; n++ {
		answer, err := p.next.RoundTrip(r)
		if err != nil || r.Method != http.MethodGet || !initializing(answer) {
			return answer, err
		}
		if n == repeats {
			answer.Header.Del("Retry-After")
			return answer, nil
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
		if err := answer.Body.Close(); err != nil {
			return nil, err
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-r.Context().Done():
			timer.Stop()
			return nil, r.Context().Err()
		}
		delay *= 2
	}
}

// initializing tells a kind whose storage isn't ready from a server that has too
// much to do: the first is refused by the kind's own handler, with a Status; the
// second by a filter before it, in plain text. A server that has too much to do
// is left alone for as long as it asks.
func initializing(answer *http.Response) bool {
	return answer.StatusCode == http.StatusTooManyRequests &&
		strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json")
}
