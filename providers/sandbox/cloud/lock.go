package cloud

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked is that somebody has the directory open.
var ErrLocked = errors.New("the cloud is open already")

// lock is a directory that nobody else can open. It is the system that holds it: a
// process that is killed leaves none.
type lock struct{ file *os.File }

// take makes the directory if there is none, and locks it.
func take(dir string) (lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return lock{}, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return lock{}, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // it held nothing
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return lock{}, fmt.Errorf("%s: %w", dir, ErrLocked)
		}
		return lock{}, fmt.Errorf("lock %s: %w", dir, err)
	}
	return lock{file}, nil
}

// release leaves the file: removing it would let two others lock two files of one name.
func (l lock) release() error { return l.file.Close() }
