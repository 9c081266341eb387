package plane

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneProcessPerDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		first := mustOpen(t, dir)
		began, messages := time.Now(), map[string]time.Duration{}
		_, err := openHome(t.Context(), dir, func(message string) { messages[message] = time.Since(began) })
		want := fmt.Sprintf("another control plane uses this data directory (process %d); stop it, or choose another with --data-dir", os.Getpid())
		if err == nil || err.Error() != want {
			t.Fatalf("a second one: %v, not %s", err, want)
		}
		notice := fmt.Sprintf("waiting for the control plane that uses %s to end (process %d)", dir, os.Getpid())
		if at, found := messages[notice]; !found || len(messages) != 1 || at != lockNotice {
			t.Errorf("messages %v, not %q after %s", messages, notice, lockNotice)
		}
		first.close()
		mustOpen(t, dir).close()
	})
}

// After its parent was killed, a control plane takes a moment to end. Whoever starts the next one meanwhile waits.
func TestTheNextProcessWaitsForTheEndOfTheFormer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		former := mustOpen(t, dir)
		time.AfterFunc(lockPatience/2, former.close)
		mustOpen(t, dir).close()
	})
}

// The usual end takes a few milliseconds, which is not worth a message.
func TestAShortWaitForTheFormerProcessIsNotReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		former := mustOpen(t, dir)
		time.AfterFunc(lockNotice/2, former.close)
		next, err := openHome(t.Context(), dir, func(message string) { t.Error(message) })
		if err != nil {
			t.Fatal(err)
		}
		next.close()
	})
}

// A control plane of an earlier version has written nothing to its lock.
func TestALockWithoutAProcessIsReportedWithoutIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		former := mustOpen(t, dir)
		defer former.close()
		if err := former.lock.Truncate(0); err != nil {
			t.Fatal(err)
		}
		const want = "another control plane uses this data directory; stop it, or choose another with --data-dir"
		if _, err := openHome(t.Context(), dir, func(string) {}); err == nil || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	})
}

func TestWaitingForTheFormerProcessCanBeInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		former := mustOpen(t, dir)
		defer former.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := openHome(ctx, dir, func(string) {}); err == nil || time.Since(began) != time.Second {
			t.Errorf("ends after %s with %v", time.Since(began), err)
		}
	})
}

func TestDirectoryIsMadePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir).close()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("mode %o", got)
	}
}

// A control plane makes its directory private, and users delete it with all that it contains.
func TestADirectoryOfAnotherPurposeIsRefused(t *testing.T) {
	cases := map[string]struct {
		files []string
		want  string
	}{
		"an empty one":           {},
		"one of a control plane": {files: []string{"README.md", "lock"}},
		"an empty file system":   {files: []string{"lost+found"}},
		"one with other files, such as a clone": {
			files: []string{"README.md"},
			want:  "DIR contains other files, such as README.md; choose a directory that is empty or does not exist with --data-dir",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range tc.files {
				if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			h, err := openHome(t.Context(), dir, func(string) {})
			if err == nil {
				h.close()
			}
			if got := strings.ReplaceAll(fmt.Sprint(err), dir, "DIR"); got != cmp.Or(tc.want, "<nil>") {
				t.Errorf("error %q, not %q", got, tc.want)
			}
			info, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if private := info.Mode().Perm() == 0o700; private != (tc.want == "") {
				t.Errorf("its mode is %o", info.Mode().Perm())
			}
		})
	}
}

func TestSocketWorksWhateverTheDirectory(t *testing.T) {
	for name, dir := range map[string]string{
		"short path":                    filepath.Join(t.TempDir(), "d"),
		"path too long for a socket":    filepath.Join(t.TempDir(), strings.Repeat("d", 120)),
		"a killed process's left-overs": leftOver(t),
	} {
		t.Run(name, func(t *testing.T) {
			h := mustOpen(t, dir)
			path, err := h.socket("s")
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			listener.Close()
			h.close()
			if h.temp != "" {
				if _, err := os.Stat(h.temp); !os.IsNotExist(err) {
					t.Errorf("%s is left behind", h.temp)
				}
			}
		})
	}
}

// leftOver returns a directory of a control plane that holds a socket nobody listens on.
func leftOver(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "left-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
	if err := os.WriteFile(filepath.Join(dir, lockName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustOpen(t *testing.T, dir string) *home {
	t.Helper()
	h, err := openHome(t.Context(), dir, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
