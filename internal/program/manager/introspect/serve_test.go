package introspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
)

// patience is how long a test waits.
const patience = 10 * time.Second

var since = time.Date(2026, 8, 1, 10, 20, 30, 456_000_000, time.UTC)

func sample() []watch.KindStats {
	return []watch.KindStats{
		{
			Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Selection: "managed",
			State:       watch.State{Phase: watch.Synced, Since: since, Generation: 2},
			Subscribers: 3, Objects: 4, Events: 5, Age: 90*time.Second + 900*time.Millisecond,
		},
		{
			Kind: schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Vpc"}, Selection: "all",
			State: watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "may not <list>", Since: since.Add(123)},
		},
	}
}

func sampleProfile() profile.Reading {
	kind := profile.Kind{Group: "kro.run", Kind: "Web", Instances: 2, Requests: 5, Functions: []profile.Function{}}
	kind.Reconciles.Observe(time.Second)
	return profile.Reading{Began: since, At: since.Add(time.Minute), Kinds: []profile.Kind{kind}}
}

// program is a Server that runs.
type program struct {
	path   string
	logged chan string // each line that it logs
	stop   func()      // ends it, and waits until it has ended
}

// start runs a program that listens on a path, or retries to.
func start(t *testing.T, path string) program {
	t.Helper()
	return startWith(t, Server{Path: path, Watches: sample, Profile: sampleProfile})
}

// startWith is start for a server of which the test sets more.
func startWith(t *testing.T, server Server) program {
	t.Helper()
	p := program{path: server.Path, logged: make(chan string, 1000)}
	server.Log, server.retryInterval = funcr.New(func(_, args string) { p.logged <- args }, funcr.Options{}), time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { server.Run(ctx) })
	p.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(p.stop)
	return p
}

// awaitLog waits for a line that contains a text.
func (p program) awaitLog(t *testing.T, text string) {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case line := <-p.logged:
			if strings.Contains(line, text) {
				return
			}
			t.Errorf("it says %s, not %q", line, text)
		case <-limit:
			t.Fatalf("it doesn't say %q", text)
		}
	}
}

const serving = "serving 'espalier watches'"

// place is where a socket can be: its directory is not there yet.
func place(t *testing.T) string { return filepath.Join(t.TempDir(), "own", "it.sock") }

func TestListWatches(t *testing.T) {
	p := start(t, place(t))
	p.awaitLog(t, serving)
	for path, want := range map[string]fs.FileMode{p.path: fs.ModeSocket | 0o600, filepath.Dir(p.path): fs.ModeDir | 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %s, not %s", path, info.Mode(), want)
		}
	}
	got, err := ListWatches(t.Context(), p.path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Watch{
		{Version: "v1", Kind: "ConfigMap", Selection: "managed", State: "Synced", Since: since, Generation: 2, Subscribers: 3, Objects: 4, Events: 5, AgeSeconds: 90},
		{Group: "kro.run", Version: "v1alpha1", Kind: "Vpc", Selection: "all", State: "Unavailable", Reason: "Forbidden", Message: "may not <list>", Since: since},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	p.stop()
	if _, err := os.Lstat(p.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket outlives the program: %v", err)
	}
}

func TestReadProfile(t *testing.T) {
	p := start(t, place(t))
	p.awaitLog(t, serving)
	got, err := ReadProfile(t.Context(), p.path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleProfile(), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	p.stop()
	var notListening *NotListeningError
	if _, err := ReadProfile(t.Context(), p.path); !errors.As(err, &notListening) {
		t.Errorf("got error %v", err)
	}
}

// TestCoordinationIsChecked checks that only a program that listens and has no Lease is an error.
func TestCoordinationIsChecked(t *testing.T) {
	path := place(t)
	if err := CheckCoordination(t.Context(), path); err != nil {
		t.Errorf("nobody listens: %v", err)
	}
	alone := start(t, path)
	alone.awaitLog(t, serving)
	want := fmt.Sprintf("process %d reconciles this cluster already, without a Lease: ", os.Getpid())
	if err := CheckCoordination(t.Context(), path); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a program without a Lease listens: %v; want %q", err, want)
	}
	alone.stop()

	replica := startWith(t, Server{Path: path, Lease: "espalier-system/espalier.espalier.dev"})
	replica.awaitLog(t, serving)
	if err := CheckCoordination(t.Context(), path); err != nil {
		t.Errorf("a program with a Lease listens: %v", err)
	}
}

func TestOtherRequestsAreRejected(t *testing.T) {
	p := start(t, place(t))
	p.awaitLog(t, serving)
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", p.path)
	}}}
	for call, want := range map[string]int{"GET /watches": 200, "POST /watches": 405, "GET /": 404, "GET /metrics": 404} {
		method, path, _ := strings.Cut(call, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, "http://it"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", call, response.Status)
		}
	}
}

func TestAnIdleConnectionDoesNotDelayTheEnd(t *testing.T) {
	p := start(t, place(t))
	p.awaitLog(t, serving)
	c, err := net.Dial("unix", p.path) // and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	p.stop()
	if took := time.Since(began); took > stopLimit+patience/5 {
		t.Errorf("it took %s", took)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := place(t)
	abandon(t, path)
	p := start(t, path)
	p.awaitLog(t, serving)
	if _, err := ListWatches(t.Context(), path); err != nil {
		t.Error(err)
	}
}

// abandon leaves a socket as a program that is killed does.
func abandon(t *testing.T, path string) {
	t.Helper()
	s, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.UnixListener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

func TestASocketInUseIsKept(t *testing.T) {
	first := start(t, place(t))
	first.awaitLog(t, serving)
	before, err := os.Lstat(first.path)
	if err != nil {
		t.Fatal(err)
	}
	second := start(t, first.path)
	second.awaitLog(t, errInUse.Error())
	if after, err := os.Lstat(first.path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket isn't the first one's any more: %v", err)
	}
	if _, err := ListWatches(t.Context(), first.path); err != nil {
		t.Error(err)
	}
	first.stop()
	second.awaitLog(t, serving) // so the failure was logged once only
}

func TestOneOfManyReplacesAStaleSocket(t *testing.T) {
	path := place(t)
	for range 20 {
		abandon(t, path)
		var wg sync.WaitGroup
		opened := make(chan *socket, 8)
		for range cap(opened) {
			wg.Go(func() {
				s, err := open(t.Context(), path)
				if err == nil {
					opened <- s
				} else if !errors.Is(err, errInUse) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		close(opened)
		if n := len(opened); n != 1 {
			t.Errorf("%d have it", n)
		}
		for s := range opened {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestTheSocketOfAnotherProgramIsNotRemoved(t *testing.T) {
	path := place(t)
	ours, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	theirs, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("theirs is gone: %v", err)
	}
}

func TestAnUnusableSocketIsLoggedOnceAndKept(t *testing.T) {
	cases := map[string]struct {
		prepare func(t *testing.T, path string) error
		says    string
	}{
		"A directory that others can enter": {
			prepare: func(t *testing.T, path string) error { return directoryOf(0o755)(t, filepath.Dir(path)) },
			says:    "is open to others (mode 0755)",
		},
		"A link to a directory": {
			prepare: func(t *testing.T, path string) error { return os.Symlink(t.TempDir(), filepath.Dir(path)) },
			says:    "is a symbolic link",
		},
		"A file that is not a socket": {
			prepare: func(t *testing.T, path string) error {
				if err := directoryOf(0o700)(t, filepath.Dir(path)); err != nil {
					return err
				}
				return os.WriteFile(path, []byte("other"), 0o600)
			},
			says: "is not a socket",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			if err := tc.prepare(t, path); err != nil {
				t.Fatal(err)
			}
			p := start(t, path)
			p.awaitLog(t, tc.says)
			// Once the obstacle is gone, the program serves, and has logged nothing in between.
			if err := os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"); err != nil {
				t.Fatal(err)
			}
			p.awaitLog(t, serving)
			if name == "A file that is not a socket" {
				if raw, err := os.ReadFile(filepath.Join(filepath.Dir(path)+".old", "it.sock")); err != nil || string(raw) != "other" {
					t.Errorf("it is %q: %v", raw, err)
				}
			}
		})
	}
}

func TestNoProgramListens(t *testing.T) {
	nowhere, dead := place(t), place(t)
	abandon(t, dead)
	empty := filepath.Join(filepath.Dir(dead), "other.sock")
	for name, path := range map[string]string{"no directory": nowhere, "no socket": empty, "a dead program's": dead} {
		t.Run(name, func(t *testing.T) {
			_, err := ListWatches(t.Context(), path)
			var notListening *NotListeningError
			if !errors.As(err, &notListening) || notListening.Socket != path {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestListWatchesRefusesASharedDirectory(t *testing.T) {
	p := start(t, place(t))
	p.awaitLog(t, serving)
	if err := os.Chmod(filepath.Dir(p.path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := ListWatches(t.Context(), p.path); err == nil || !strings.Contains(err.Error(), "is open to others") {
		t.Errorf("got error %v", err)
	}
}

func TestInvalidResponses(t *testing.T) {
	cases := map[string]struct {
		response http.HandlerFunc
		says     string
	}{
		"Of a program that knows nothing of watches": {http.NotFound, "404 Not Found"},
		"Something else": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, "not a list of watches"},
		"Broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("["))
		}, "unexpected EOF"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := open(t.Context(), place(t))
			if err != nil {
				t.Fatal(err)
			}
			server := http.Server{Handler: tc.response, ReadHeaderTimeout: patience}
			var running sync.WaitGroup
			running.Go(func() { _ = server.Serve(s) })
			_, err = ListWatches(t.Context(), s.path)
			if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), s.path) {
				t.Errorf("got error %v", err)
			}
			server.Close()
			running.Wait()
		})
	}
}

func TestAnEndlessResponseIsCutOff(t *testing.T) {
	long := bytes.NewReader([]byte("[" + strings.Repeat(" ", 100) + "]"))
	if _, err := decode(long, 101); err == nil || !strings.Contains(err.Error(), "longer than 101 bytes") {
		t.Errorf("got error %v", err)
	}
	long.Reset([]byte("[" + strings.Repeat(" ", 99) + "]"))
	if _, err := decode(long, 101); err != nil {
		t.Error(err)
	}
}

func TestNoWatchesAreAnEmptyList(t *testing.T) {
	if got := Watches(nil); got == nil {
		t.Error("no watches are null in JSON")
	}
}
