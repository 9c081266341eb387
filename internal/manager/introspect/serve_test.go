package introspect

import (
	"bytes"
	"context"
	"errors"
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
)

// patience is for how long a test waits for what takes a moment.
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

// program is a Server that runs.
type program struct {
	path string
	said chan string // each line that it logs
	stop func()      // ends it, and waits until it has ended
}

// start runs a program that answers at a path, or tries to.
func start(t *testing.T, path string) program {
	t.Helper()
	p := program{path: path, said: make(chan string, 1000)}
	log := funcr.New(func(_, args string) { p.said <- args }, funcr.Options{})
	server := Server{Path: path, Watches: sample, Log: log, again: time.Millisecond}
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

// says waits for a line that contains a text.
func (p program) says(t *testing.T, text string) {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case line := <-p.said:
			if strings.Contains(line, text) {
				return
			}
			t.Errorf("it says %s, not %q", line, text)
		case <-limit:
			t.Fatalf("it doesn't say %q", text)
		}
	}
}

const answers = "answers 'espalier watches'"

// place is where a socket can be: its directory is not there yet.
func place(t *testing.T) string { return filepath.Join(t.TempDir(), "own", "it.sock") }

func TestAskAndAnswer(t *testing.T) {
	p := start(t, place(t))
	p.says(t, answers)
	for path, want := range map[string]fs.FileMode{p.path: fs.ModeSocket | 0o600, filepath.Dir(p.path): fs.ModeDir | 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %s, not %s", path, info.Mode(), want)
		}
	}
	got, err := Ask(t.Context(), p.path)
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

func TestOnlyWatchesAreTold(t *testing.T) {
	p := start(t, place(t))
	p.says(t, answers)
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", p.path)
	}}}
	for call, want := range map[string]int{"GET /watches": 200, "POST /watches": 405, "GET /": 404, "GET /metrics": 404} {
		method, path, _ := strings.Cut(call, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, "http://it"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %s", call, answer.Status)
		}
	}
}

func TestAProgramThatHangsUpNothingStopsAtOnce(t *testing.T) {
	p := start(t, place(t))
	p.says(t, answers)
	c, err := net.Dial("unix", p.path) // and says nothing
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

func TestWhatADeadProgramLeftIsReplaced(t *testing.T) {
	path := place(t)
	abandon(t, path)
	p := start(t, path)
	p.says(t, answers)
	if _, err := Ask(t.Context(), path); err != nil {
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

func TestALivingProgramKeepsItsSocketUntilItEnds(t *testing.T) {
	first := start(t, place(t))
	first.says(t, answers)
	before, err := os.Lstat(first.path)
	if err != nil {
		t.Fatal(err)
	}
	second := start(t, first.path)
	second.says(t, errTaken.Error())
	if after, err := os.Lstat(first.path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket isn't the first one's any more: %v", err)
	}
	if _, err := Ask(t.Context(), first.path); err != nil {
		t.Error(err)
	}
	first.stop()
	second.says(t, answers) // and so it said once only that it could not
}

func TestOfManyWhoFindADeadOneOneTakesItsPlace(t *testing.T) {
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
				} else if !errors.Is(err, errTaken) {
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

func TestASocketThatIsAnothersByNowIsLeft(t *testing.T) {
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

func TestWhatStandsInTheWayIsToldOnceAndStays(t *testing.T) {
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
		"A file that is no socket": {
			prepare: func(t *testing.T, path string) error {
				if err := directoryOf(0o700)(t, filepath.Dir(path)); err != nil {
					return err
				}
				return os.WriteFile(path, []byte("dear"), 0o600)
			},
			says: "is no socket",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			if err := tc.prepare(t, path); err != nil {
				t.Fatal(err)
			}
			p := start(t, path)
			p.says(t, tc.says)
			// Once the way is free, it answers, and said nothing in between.
			if err := os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"); err != nil {
				t.Fatal(err)
			}
			p.says(t, answers)
			if name == "A file that is no socket" {
				if raw, err := os.ReadFile(filepath.Join(filepath.Dir(path)+".old", "it.sock")); err != nil || string(raw) != "dear" {
					t.Errorf("it is %q: %v", raw, err)
				}
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	nowhere, dead := place(t), place(t)
	abandon(t, dead)
	empty := filepath.Join(filepath.Dir(dead), "other.sock")
	for name, path := range map[string]string{"no directory": nowhere, "no socket": empty, "a dead program's": dead} {
		t.Run(name, func(t *testing.T) {
			_, err := Ask(t.Context(), path)
			var nobody *NobodyError
			if !errors.As(err, &nobody) || nobody.Socket != path {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestAskTrustsNobodyElse(t *testing.T) {
	p := start(t, place(t))
	p.says(t, answers)
	if err := os.Chmod(filepath.Dir(p.path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(t.Context(), p.path); err == nil || !strings.Contains(err.Error(), "is open to others") {
		t.Errorf("it says %v", err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	cases := map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"Of a program that knows nothing of watches": {http.NotFound, "404 Not Found"},
		"Something else": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, "no list of watches"},
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
			server := http.Server{Handler: tc.answer, ReadHeaderTimeout: patience}
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(s) })
			_, err = Ask(t.Context(), s.path)
			if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), s.path) {
				t.Errorf("it says %v", err)
			}
			server.Close()
			serving.Wait()
		})
	}
}

func TestAnAnswerWithoutAnEndIsNotReadForEver(t *testing.T) {
	long := bytes.NewReader([]byte("[" + strings.Repeat(" ", 100) + "]"))
	if _, err := decode(long, 101); err == nil || !strings.Contains(err.Error(), "longer than 101 bytes") {
		t.Errorf("it says %v", err)
	}
	long.Reset([]byte("[" + strings.Repeat(" ", 99) + "]"))
	if _, err := decode(long, 101); err != nil {
		t.Error(err)
	}
}

func TestThereIsAlwaysAList(t *testing.T) {
	if got := Watches(nil); got == nil {
		t.Error("no watches are null in JSON")
	}
}
