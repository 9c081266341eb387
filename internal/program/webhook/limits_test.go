package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// post sends a body to a handler.
func post(h http.Handler, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, strings.NewReader(body)))
	return w
}

func TestARequestHasTheTimeThatTheAPIServerAllows(t *testing.T) {
	cases := map[string]struct {
		reason string
		query  string
		want   time.Duration
		status int
	}{
		"none is named":        {"the limit applies", "", 5 * time.Second, 200},
		"less than the limit":  {"a tenth is left for the way back", "?timeout=2s", 1800 * time.Millisecond, 200},
		"more than the limit":  {"the limit applies", "?timeout=1h", 5 * time.Second, 200},
		"what is no duration":  {"it is said", "?timeout=soon", 0, 400},
		"no time":              {"it is said", "?timeout=0s", 0, 400},
		"less than no time":    {"it is said", "?timeout=-1s", 0, 400},
		"another parameter":    {"it means nothing", "?x=1", 5 * time.Second, 200},
		"an unreadable string": {"it means nothing", "?%zz", 5 * time.Second, 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got time.Duration
				l := newLimiter("admission", maxRequest, 5*time.Second, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					until, _ := r.Context().Deadline()
					got = time.Until(until)
				}))
				r := httptest.NewRequest(http.MethodPost, "/", nil)
				r.URL.RawQuery = strings.TrimPrefix(tc.query, "?")
				w := httptest.NewRecorder()
				l.ServeHTTP(w, r)
				if got != tc.want || w.Code != tc.status {
					t.Errorf("%s: %s, %d %s", tc.reason, got, w.Code, w.Body)
				}
			})
		})
	}
}

// TestConcurrentRequestsAreBounded sends more requests than are served at the same time, while
// none is answered.
func TestConcurrentRequestsAreBounded(t *testing.T) {
	cases := map[string]struct {
		reason string
		body   string
		length int64 // of the body as the request declares it
		served int
	}{
		"small ones":               {"each counts at least one MiB", "{}", 2, 64},
		"large ones":               {"their bodies are in memory", strings.Repeat(" ", 8<<20), 8 << 20, 8},
		"those of unknown lengths": {"they may be the largest", "{}", -1, 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				var mu sync.Mutex
				serving, codes := 0, map[int]int{}
				l := newLimiter("conversion", maxConversionRequest, 8*time.Second, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					mu.Lock()
					serving++
					mu.Unlock()
					<-release
				}))
				var texts sync.Map
				const more = 10
				for range tc.served + maxWaitingRequests + more {
					go func() {
						r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tc.body))
						r.ContentLength = tc.length
						w := httptest.NewRecorder()
						l.ServeHTTP(w, r)
						mu.Lock()
						codes[w.Code]++
						mu.Unlock()
						texts.Store(w.Code, w.Body.String())
					}()
				}
				synctest.Wait()
				mu.Lock() // waiting orders no write of a goroutine that a timer wakes after this
				if serving != tc.served || codes[http.StatusTooManyRequests] != more {
					t.Errorf("%s: %d are served, others are answered %v", tc.reason, serving, codes)
				}
				mu.Unlock()
				if text, _ := texts.Load(http.StatusTooManyRequests); !strings.Contains(text.(string), "at most 64 requests with 64 MiB run concurrently, and 256 more wait") {
					t.Errorf("it says %s", text)
				}
				<-time.After(8 * time.Second) // of the bubble: those that wait have waited for their time
				synctest.Wait()
				if codes[http.StatusServiceUnavailable] != maxWaitingRequests {
					t.Errorf("those that wait are answered %v", codes)
				}
				if text, _ := texts.Load(http.StatusServiceUnavailable); !strings.Contains(text.(string), "timed out waiting for a slot") {
					t.Errorf("it says %s", text)
				}
				close(release)
				synctest.Wait()
				if w := post(l, "/", "{}"); w.Code != http.StatusOK || codes[http.StatusOK] != tc.served {
					t.Errorf("afterwards it answers %d, before %v", w.Code, codes)
				}
			})
		})
	}
}

func TestWhatIsDeclaredTooLargeIsNotRead(t *testing.T) {
	l := newLimiter("admission", maxRequest, time.Second, nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is served") }))
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(""))
	r.ContentLength = maxRequest + 1
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "larger than 7 MiB") {
		t.Errorf("it answers %d %s", w.Code, w.Body)
	}
}
