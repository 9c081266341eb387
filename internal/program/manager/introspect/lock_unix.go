//go:build unix

package introspect

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks an open directory until it is closed, and returns false if another process has
// locked it.
func tryLock(dir *os.File) (bool, error) {
	err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
