package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const hour = time.Hour

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newFake(t *testing.T, f roundTrip, insecure ...string) *transport {
	t.Helper()
	tr, err := newTransport(Options{Insecure: insecure})
	if err != nil {
		t.Fatal(err)
	}
	tr.verified, tr.unverified = f, f
	return tr
}

func answer(status int, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func get(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRequestsAreSentAgain plays the answers of a registry, and measures in a clock of its own.
func TestRequestsAreSentAgain(t *testing.T) {
	refused := errors.New("certificate")
	type step struct {
		status int
		after  string
		err    error
	}
	cases := map[string]struct {
		steps           []step
		deadline        time.Duration
		attempts        int
		status          int
		atLeast, atMost time.Duration
		problem         string
	}{
		"an answer":                      {[]step{{status: 200}}, hour, 1, 200, 0, 0, ""},
		"not found is an answer":         {[]step{{status: 404}}, hour, 1, 404, 0, 0, ""},
		"an outage that ends":            {[]step{{status: 503}, {status: 502}, {status: 200}}, hour, 3, 200, 1500 * time.Millisecond, 2250 * time.Millisecond, ""},
		"an outage that does not":        {[]step{{status: 500}}, hour, 5, 0, 7 * time.Second, 15 * time.Second, "answers 500 Internal Server Error"},
		"the registry names seconds":     {[]step{{status: 429, after: "90"}, {status: 200}}, hour, 2, 200, 90 * time.Second, 90 * time.Second, ""},
		"the registry names a date":      {[]step{{status: 429, after: "Sat, 01 Jan 2000 00:02:00 GMT"}, {status: 200}}, hour, 2, 200, 2 * time.Minute, 2 * time.Minute, ""},
		"and the caller does not wait":   {[]step{{status: 429, after: "90"}}, time.Minute, 1, 0, 0, 0, "asks to wait 1m30s"},
		"nonsense is no time":            {[]step{{status: 429, after: "soon"}, {status: 200}}, hour, 2, 200, 500 * time.Millisecond, 750 * time.Millisecond, ""},
		"a connection that is refused":   {[]step{{err: syscall.ECONNREFUSED}, {status: 200}}, hour, 2, 200, 500 * time.Millisecond, 750 * time.Millisecond, ""},
		"a certificate does not recover": {[]step{{err: refused}}, hour, 1, 0, 0, 0, "certificate"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				tr := newFake(t, func(*http.Request) (*http.Response, error) {
					s := tc.steps[min(attempts, len(tc.steps)-1)]
					attempts++
					if s.err != nil {
						return nil, s.err
					}
					return answer(s.status, "Retry-After", s.after), nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
				defer cancel()
				begun := time.Now()
				response, err := tr.RoundTrip(get(t, ctx, "https://registry.example.org/v2/"))
				took := time.Since(begun)
				if attempts != tc.attempts || took < tc.atLeast || took > tc.atMost {
					t.Errorf("%d attempts in %s", attempts, took)
				}
				if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) || err == nil && response.StatusCode != tc.status {
					t.Errorf("%+v, %v", response, err)
				}
			})
		})
	}
}

func TestARegistryIsLeftAloneWhenItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		tr := newFake(t, func(*http.Request) (*http.Response, error) {
			if requests++; requests == 1 {
				return answer(429, "Retry-After", "60"), nil
			}
			return answer(200), nil
		})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var busy *BusyError
		if _, err := tr.RoundTrip(get(t, short, "https://registry.example.org/v2/")); !errors.As(err, &busy) || busy.After != time.Minute {
			t.Errorf("error %v", err)
		}
		if _, err := tr.RoundTrip(get(t, short, "https://registry.example.org/v2/other")); !errors.As(err, &busy) || requests != 1 {
			t.Errorf("the next request does not know: %v, %d requests", err, requests)
		}
		if r, err := tr.RoundTrip(get(t, short, "https://other.example.org/v2/")); err != nil || r.StatusCode != 200 {
			t.Errorf("another registry: %+v, %v", r, err)
		}
		begun := time.Now()
		if r, err := tr.RoundTrip(get(t, t.Context(), "https://registry.example.org/v2/")); err != nil || r.StatusCode != 200 || time.Since(begun) != time.Minute {
			t.Errorf("%+v, %v after %s", r, err, time.Since(begun))
		}
	})
}

func TestRequestsToARegistryAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var active, most atomic.Int32
		tr := newFake(t, func(*http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), active.Add(1)))
			return answer(200), nil
		})
		var all sync.WaitGroup
		for range 5 * maxPerRegistry {
			all.Go(func() {
				r, err := tr.RoundTrip(get(t, t.Context(), "https://registry.example.org/v2/"))
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second) //nolint:forbidigo // the clock of the test: the answer is being read
				active.Add(-1)
				r.Body.Close()
			})
		}
		all.Wait()
		if most.Load() != maxPerRegistry {
			t.Errorf("%d requests at a time, want %d", most.Load(), maxPerRegistry)
		}
	})
}

func TestPlainHTTPIsSaidExplicitly(t *testing.T) {
	for name, tc := range map[string]struct {
		url      string
		insecure []string
		works    bool
	}{
		"TLS":                         {"https://registry.example.org/v2/", nil, true},
		"plain HTTP":                  {"http://registry.example.org/v2/", nil, false},
		"a private network":           {"http://10.0.0.7:5000/v2/", nil, false},
		"a name of the local network": {"http://registry.local/v2/", nil, false},
		"loopback":                    {"http://127.0.0.1:5000/v2/", nil, true},
		"its name":                    {"http://localhost:5000/v2/", nil, true},
		"named":                       {"http://registry.example.org:5000/v2/", []string{"registry.example.org:5000"}, true},
		"named without its port":      {"http://registry.example.org:5000/v2/", []string{"registry.example.org"}, true},
		"another port is named":       {"http://registry.example.org/v2/", []string{"registry.example.org:5000"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newFake(t, func(*http.Request) (*http.Response, error) { return answer(200), nil }, tc.insecure...)
			_, err := tr.RoundTrip(get(t, t.Context(), tc.url))
			if (err == nil) != tc.works || err != nil && !strings.Contains(err.Error(), "plain HTTP") {
				t.Errorf("error %v", err)
			}
		})
	}
}
