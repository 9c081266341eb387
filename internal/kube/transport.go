package kube

import (
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// RetryInitializing returns a copy of the configuration. Its reads retry soon when a kind is not served yet. The API
// server tells clients to come back after a second, while the storage of a new kind takes a few milliseconds.
func RetryInitializing(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return initializingRetrier{next} })
	return wrapped
}

type initializingRetrier struct{ next http.RoundTripper }

// A request is retried after 10, 20, … 320 milliseconds; then the answer is returned
// without Retry-After, which the client would follow ten times before it reports the error.
// Storage that is not ready by then may have a failing conversion, which must be reported.
const (
	firstRetryDelay = 10 * time.Millisecond
	retries         = 6
)

func (p initializingRetrier) RoundTrip(r *http.Request) (*http.Response, error) {
	delay := firstRetryDelay
	for n := 0; ; n++ {
		answer, err := p.next.RoundTrip(r)
		if err != nil || r.Method != http.MethodGet || !isInitializing(answer) {
			return answer, err
		}
		if n == retries {
			answer.Header.Del("Retry-After")
			return answer, nil
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so the connection is reused
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

// isInitializing distinguishes a kind without ready storage from an overloaded server. The kind's own handler refuses
// the first with a Status; a filter before it refuses the second in plain text. An overloaded server is left alone for
// as long as it requests.
func isInitializing(answer *http.Response) bool {
	return answer.StatusCode == http.StatusTooManyRequests &&
		strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json")
}
