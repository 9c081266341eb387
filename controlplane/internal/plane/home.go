package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockName is the first file that a control plane creates.
const lockName = "lock"

// maxSocketPath is the longest path that a unix socket may have on every system we run on.
const maxSocketPath = 100

// home is a data directory that this process has locked.
type home struct {
	dir  string
	lock *os.File
	temp string // directory of the socket, when dir's own path is too long for one
}

// A control plane whose parent was killed has the lock until it has stopped, so the next one waits for that.
const (
	lockPatience = 15 * time.Second
	lockNotice   = time.Second
	lockInterval = 50 * time.Millisecond
)

// openHome creates the directory if it does not exist, and fails if it has another purpose, or if another process keeps it
// locked. It calls waiting with a message if it waits for that process for longer than lockNotice.
func openHome(ctx context.Context, dir string, waiting func(message string)) (*home, error) {
	if dir == "" {
		return nil, errors.New("a data directory is required")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkForeign(dir); err != nil {
		return nil, err
	}
	// The directory may have been there, with a wider mode; read access to it is administrator access.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// The kernel drops the lock with the process, so no stale one is ever left.
	notify := func() {
		waiting(fmt.Sprintf("waiting for the control plane that uses %s to end%s", dir, lockedBy(lock)))
	}
	if err := acquire(ctx, lock, notify); err != nil {
		defer lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another control plane uses this data directory%s; stop it, or choose another with --data-dir", lockedBy(lock))
		}
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := writeProcess(lock); err != nil {
		lock.Close()
		return nil, err
	}
	return &home{dir: dir, lock: lock}, nil
}

// checkForeign fails if a directory has files, but none of a control plane: it would become private, and users would delete
// their own files with the data.
func checkForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	foreign := ""
	for _, entry := range entries {
		switch name := entry.Name(); name {
		case lockName:
			return nil
		case "lost+found": // an empty file system has it
		default:
			foreign = name
		}
	}
	if foreign == "" {
		return nil
	}
	return fmt.Errorf("%s contains other files, such as %s; choose a directory that is empty or does not exist with --data-dir", dir, foreign)
}

// acquire locks a file, and waits while another process has locked it. It calls notify once if that takes longer than lockNotice.
func acquire(ctx context.Context, file *os.File, notify func()) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	notice := time.NewTimer(lockNotice)
	defer notice.Stop()
	again := time.NewTicker(lockInterval)
	defer again.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-again.C:
		case <-notice.C:
			notify()
		case <-ctx.Done():
			return err
		}
	}
}

// writeProcess writes the ID of this process to the lock, for the messages of those that find it locked.
func writeProcess(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// lockedBy names the process that has locked a file, or nothing if the file does not say.
func lockedBy(lock *os.File) string {
	raw := make([]byte, 20)
	n, _ := lock.ReadAt(raw, 0) // a short file ends with io.EOF
	id, err := strconv.Atoi(strings.TrimSpace(string(raw[:n])))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", id)
}

func (h *home) file(name string) string {
	return filepath.Join(h.dir, name)
}

// or returns path or, if it is empty, the file of the given name in the directory.
func (h *home) or(path, name string) string {
	if path != "" {
		return path
	}
	return h.file(name)
}

// socket returns a path for a unix socket that only this user can reach.
func (h *home) socket(name string) (string, error) {
	path := h.file(name)
	if len(path) > maxSocketPath {
		temp, err := os.MkdirTemp("", "espalier-")
		if err != nil {
			return "", err
		}
		h.temp = temp
		path = filepath.Join(temp, name)
	}
	// A killed process leaves its socket behind; the lock says that no program listens on it.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return path, nil
}

func (h *home) close() {
	if h.temp != "" {
		_ = os.RemoveAll(h.temp) // an empty directory in the system's own temporary one
	}
	_ = h.lock.Close() // what was written to it concerns this process only
}
