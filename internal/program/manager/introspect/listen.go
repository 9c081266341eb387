package introspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	openLimit = 5 * time.Second       // for the lock of the directory
	lockRetry = 10 * time.Millisecond // between attempts to lock it
	dialLimit = time.Second           // for the program that may listen on it
)

// errInUse says that another program listens on the socket.
var errInUse = errors.New("another program listens on the socket")

// socket is a listener with its file.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// open listens on a socket that only this user can reach, and creates its directory if it does
// not exist. It replaces the socket of a program that has ended, and not one that another
// program listens on.
func open(ctx context.Context, path string) (*socket, error) {
	path, err := socketPath(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("the socket's directory: %w", err)
	}
	if err := checkPrivate(dir, os.Getuid()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	unlock, err := lock(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	return listen(path)
}

func listen(path string) (*socket, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // Close removes the file only if it is still this one
	s := &socket{UnixListener: l, path: path}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if s.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// Close removes the file before it stops listening, so that no other program takes the socket
// for a stale one in between. It keeps a file that another program has created since.
func (s *socket) Close() error {
	var removed error
	if file, err := os.Lstat(s.path); err == nil && os.SameFile(file, s.file) {
		removed = os.Remove(s.path)
	}
	return errors.Join(removed, s.UnixListener.Close())
}

// removeStale removes a socket that no program listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	c, err := net.DialTimeout("unix", path, dialLimit)
	switch {
	case err == nil:
		_ = c.Close() // nothing was sent
		return errInUse
	case !errors.Is(err, syscall.ECONNREFUSED):
		return err // a program that is too busy to accept has not ended
	}
	return os.Remove(path)
}

// lock locks a directory while a socket is opened in it, so that two programs that find the
// same stale socket do not replace each other's. The lock is on the directory itself, which
// leaves no file behind, and ends with its process.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = d.Close() } // it was opened for reading
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		locked, err := tryLock(d)
		if locked {
			return unlock, nil
		}
		if err != nil {
			unlock()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			unlock()
			return nil, fmt.Errorf("another program has locked %s: %w", dir, ctx.Err())
		}
	}
}
