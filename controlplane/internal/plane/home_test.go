package plane

import (
	"context"
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
		if _, err := openHome(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "another control plane") {
			t.Fatalf("a second one opened it: %v", err)
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

func TestWaitingForTheFormerProcessCanBeInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		former := mustOpen(t, dir)
		defer former.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := openHome(ctx, dir); err == nil || time.Since(began) != time.Second {
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

// leftOver returns a directory that holds a socket nobody listens on.
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
	return dir
}

func mustOpen(t *testing.T, dir string) *home {
	t.Helper()
	h, err := openHome(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
