package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func writing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "export.yaml")
	if err := os.WriteFile(path, []byte("before"), 0o644); err != nil { //nolint:gosec // the mode is what is tested
		t.Fatal(err)
	}
	failed := errors.New("failed")
	if err := replaceFile(path, func(w io.Writer) error { return errors.Join(writing("half")(w), failed) }); !errors.Is(err, failed) {
		t.Errorf("want the error, got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "before" {
		t.Errorf("after a failure: %q, %v", text, err)
	}
	if err := replaceFile(path, writing("after")); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if info, statErr := os.Stat(path); err != nil || statErr != nil || string(text) != "after" || info.Mode().Perm() != 0o600 {
		t.Errorf("afterwards: %q, %v, %v, %v", text, err, info, statErr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// TestADeviceIsNotReplaced writes to a pipe: for root, a rename would replace /dev/null as well.
func TestADeviceIsNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := replaceFile(path, writing("text")); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(reader); err != nil || string(text) != "text" {
		t.Errorf("the pipe has %q, %v", text, err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the pipe is %v, %v", info, err)
	}
	if err := replaceFile(t.TempDir(), writing("text")); err == nil {
		t.Error("a directory is written")
	}
}
