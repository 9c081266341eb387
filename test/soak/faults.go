package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// faults are what a proxy does wrong for a while.
type faults struct {
	names []string
	// over is closed when others replace them.
	over    chan struct{}
	freezes bool

	mu     sync.Mutex
	random *rand.Rand
}

// The faults. Each is of single requests, drawn by chance, except where it says all.
const (
	refusing     = "refusing"        // requests are answered with 429 and 5xx, which the API server has not seen
	losing       = "losing-answers"  // the API server carries out a write, and the client gets no answer, or that of a gateway
	cutting      = "cutting-answers" // an answer ends in its middle
	slow         = "slow"            // requests and answers take up to two seconds more
	hanging      = "hanging"         // requests get no answer
	goaway       = "going-away"      // connections end in an orderly manner
	freezing     = "freezing"        // all open connections are open and transport nothing any more
	smallPages   = "small-pages"     // all lists have three objects a page, and tokens expire
	noWatchLists = "no-watch-lists"  // all are refused
	cutWatchList = "cut-watch-lists" // all end before their bookmark
	noBookmarks  = "no-bookmarks"    // all bookmarks are left out, except that a watch-list must have
	tooOld       = "old-revisions"   // all watches from a revision are refused
	tooLarge     = "large-revisions" // lists and watches from a revision are refused
	late         = "late-events"     // all events arrive up to four seconds late
	twice        = "double-events"   // all events arrive twice
	notFound     = "not-found"       // requests are answered with the 404 of a gateway
)

var allFaults = []string{refusing, losing, cutting, slow, hanging, goaway, freezing, smallPages, noWatchLists, cutWatchList, noBookmarks, tooOld,
	tooLarge, late, twice, notFound}

// parseFaults reads the value of the flag -faults.
func parseFaults(text string) ([]string, error) {
	if text == "all" {
		return allFaults, nil
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		if !slices.Contains(allFaults, name) {
			return nil, fmt.Errorf("there is no fault %q; there are all, or of %s", name, strings.Join(allFaults, ","))
		}
	}
	return names, nil
}

// drawFaults draws one to three faults.
func drawFaults(of []string, random *rand.Rand) *faults {
	f := newFaults(random.Uint64())
	for range 1 + random.IntN(3) {
		if name := pick(random, of); !slices.Contains(f.names, name) {
			f.names = append(f.names, name)
		}
	}
	f.freezes = slices.Contains(f.names, freezing)
	return f
}

func newFaults(seed uint64) *faults {
	return &faults{over: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 0))}
}

// disturb is a step: it draws the faults from now on.
func (s *soak) disturb(context.Context) (string, error) {
	f := drawFaults(s.faults, s.random)
	s.proxy.setFaults(f)
	return strings.Join(f.names, ", "), nil
}

type faultsKey struct{}

func withFaults(r *http.Request, f *faults) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), faultsKey{}, f))
}

func faultsOf(r *http.Request) *faults {
	f, _ := r.Context().Value(faultsKey{}).(*faults)
	return f
}

// has draws whether a fault happens now: of n times, once.
func (f *faults) has(name string, n int) bool {
	return slices.Contains(f.names, name) && f.below(n) == 0
}

func (f *faults) below(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// pause waits, until the client gives up or the faults are over.
func (f *faults) pause(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-f.over:
	}
}

func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

func isWatchList(r *http.Request) bool {
	return isWatch(r) && r.URL.Query().Get("sendInitialEvents") == "true"
}

// before is what happens to a request. It returns false if it is answered.
func (f *faults) before(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	query := r.URL.Query()
	isList := r.Method == http.MethodGet && !isWatch(r) && (query.Has("limit") || query.Has("continue") || query.Has("resourceVersion"))
	revision := query.Get("resourceVersion")
	hasRevision := revision != "" && revision != "0"
	if f.has(slow, 2) {
		f.pause(r, time.Duration(f.below(2000))*time.Millisecond)
	}
	switch {
	case f.has(hanging, 15):
		select {
		case <-f.over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case f.has(refusing, 3):
		f.refuse(w)
		return r, false
	case f.has(notFound, 4):
		page(w, http.StatusNotFound)
		return r, false
	case isWatchList(r) && f.has(noWatchLists, 1):
		answer(w, &apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil).ErrStatus)
		return r, false
	case isWatch(r) && !isWatchList(r) && hasRevision && f.has(tooOld, 1):
		if f.below(2) == 0 {
			answer(w, &apierrors.NewResourceExpired("too old resource version").ErrStatus)
		} else {
			event(w, &apierrors.NewResourceExpired("too old resource version").ErrStatus)
		}
		return r, false
	case (isList || isWatch(r)) && hasRevision && f.has(tooLarge, 2):
		status := apierrors.NewTimeoutError("Too large resource version", 1).ErrStatus
		status.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
		answer(w, &status)
		return r, false
	case isList && f.has(smallPages, 1):
		if query.Has("continue") && f.below(3) == 0 {
			status := apierrors.NewResourceExpired("the provided continue parameter is too old").ErrStatus
			if f.below(2) == 0 {
				status.Continue = query.Get("continue")
			}
			answer(w, &status)
			return r, false
		}
		if query.Has("limit") && !hasRevision {
			query.Set("limit", "3")
			if query.Get("resourceVersion") == "0" {
				query.Del("resourceVersion")
			}
			r = r.Clone(r.Context())
			r.URL.RawQuery = query.Encode()
		}
	}
	if f.has(goaway, 4) {
		w.Header().Set("Connection", "close")
	}
	return r, true
}

// refuse answers in the place of the API server.
func (f *faults) refuse(w http.ResponseWriter) {
	code := []int{429, 429, 500, 502, 503, 504}[f.below(6)]
	if f.below(3) == 0 {
		w.Header().Set("Retry-After", fmt.Sprint(1+f.below(2)))
	}
	if code == http.StatusTooManyRequests {
		http.Error(w, "Too many requests, please try again later.", code)
		return
	}
	page(w, code)
}

// page answers with a page, as a gateway does.
func page(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "<html><body><h1>%d %s</h1></body></html>", code, http.StatusText(code))
}

func answer(w http.ResponseWriter, status *metav1.Status) {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// event answers a watch with an error.
func event(w http.ResponseWriter, status *metav1.Status) {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": status})
}

// spoil is what happens to an answer of the API server.
func (f *faults) spoil(answer *http.Response) error {
	r := answer.Request
	if f.has(slow, 2) {
		f.pause(r, time.Duration(f.below(2000))*time.Millisecond)
	}
	if testkit.IsWrite(r) && f.has(losing, 3) {
		if f.below(2) == 0 {
			return io.ErrUnexpectedEOF
		}
		answer.Body.Close()
		answer.StatusCode = []int{500, 502, 503, 504}[f.below(4)]
		answer.Header = http.Header{"Content-Type": {"text/html"}}
		if f.below(2) == 0 {
			answer.Header.Set("Retry-After", "1")
		}
		answer.Body = io.NopCloser(strings.NewReader("<html>bad gateway</html>"))
		answer.ContentLength = -1
		return nil
	}
	switch {
	case answer.StatusCode >= 300:
	case isWatch(r):
		if strings.Contains(answer.Header.Get("Content-Type"), "json") && answer.Header.Get("Content-Encoding") == "" {
			answer.Body = f.events(r, answer.Body)
		}
	case f.has(cutting, 3):
		answer.Body = cut{io.LimitReader(answer.Body, int64(f.below(2000))), answer.Body}
	}
	return nil
}

// cut is an answer that breaks off.
type cut struct {
	io.Reader
	io.Closer
}

func (c cut) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// timedLine is a line of a watch and when it reaches the client.
type timedLine struct {
	text []byte
	due  time.Time
}

// events returns the events of a watch as they reach the client.
func (f *faults) events(r *http.Request, from io.ReadCloser) io.ReadCloser {
	out, in := io.Pipe()
	lines := make(chan timedLine, 1000)
	ended := make(chan struct{})
	var failure error
	go func() {
		defer close(lines)
		reader := bufio.NewReader(from)
		for {
			text, err := reader.ReadBytes('\n')
			if err != nil {
				failure = err
				return
			}
			due := time.Now()
			if slices.Contains(f.names, late) {
				due = due.Add(time.Duration(f.below(4000)) * time.Millisecond)
			}
			select {
			case lines <- timedLine{text, due}:
			case <-ended:
				return
			}
		}
	}()
	go func() {
		defer from.Close()
		defer close(ended)
		initial := isWatchList(r)
		n := 0
		for line := range lines {
			now := f
			select {
			case <-f.over:
				now = newFaults(0)
			default:
				now.pause(r, time.Until(line.due))
			}
			n++
			bookmark := bytes.HasPrefix(line.text, []byte(`{"type":"BOOKMARK"`))
			ends := bookmark && bytes.Contains(line.text, []byte("initial-events-end"))
			switch {
			case initial && now.has(cutWatchList, 1) && (n > 2 || ends):
				in.Close()
				return
			case bookmark && !ends && now.has(noBookmarks, 1):
				continue
			case now.has(cutting, 8):
				_, _ = in.Write(line.text[:len(line.text)/2])
				in.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			if ends {
				initial = false
			}
			times := 1
			if !bookmark && now.has(twice, 1) {
				times = 2
			}
			for range times {
				if _, err := in.Write(line.text); err != nil {
					return
				}
			}
		}
		in.CloseWithError(failure)
	}()
	return out
}
