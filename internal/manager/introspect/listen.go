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
	openLimit = 5 * time.Second       // for a directory that others are busy in
	lockRetry = 10 * time.Millisecond // between looks whether they still are
	dialLimit = time.Second           // for somebody who may be dead to answer
)

// errTaken says that the socket answers: another program works with it.
var errTaken = errors.New("another program answers there, and keeps it")

// socket is a listener with its file.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// open makes a socket that only this user can reach, in a directory that is made
// if need be. What a dead program left is replaced; one that answers is not.
func open(ctx context.Context, path string) (*socket, error) {
	path, err := absolute(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("the socket's directory: %w", err)
	}
	if err := private(dir, os.Getuid()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	unlock, err := lock(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := vacate(path); err != nil {
		return nil, err
	}
	return listen(path)
}

func listen(path string) (*socket, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it goes by the path; Close below looks whose file that is
	s := &socket{UnixListener: l, path: path}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if s.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// Close removes the file before it stops listening: while the socket answers
// nobody takes the file for a dead program's. A file that isn't ours any more
// stays.
func (s *socket) Close() error {
	var removed error
	if file, err := os.Lstat(s.path); err == nil && os.SameFile(file, s.file) {
		removed = os.Remove(s.path)
	}
	return errors.Join(removed, s.UnixListener.Close())
}

// vacate removes a socket that nobody listens on.
func vacate(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there already, and is no socket", path)
	}
	c, err := net.DialTimeout("unix", path, dialLimit)
	switch {
	case err == nil:
		_ = c.Close() // nothing was said
		return errTaken
	case !errors.Is(err, syscall.ECONNREFUSED):
		return err // a program that is too busy to answer is alive
	}
	return os.Remove(path)
}

// lock keeps other programs from opening sockets in a directory, so that of two
// that find the same dead one each doesn't replace the other's. It is the
// directory itself that is locked, which leaves no file behind, and the lock ends
// with its holder.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = d.Close() } // it was only read
	again := time.NewTicker(lockRetry)
	defer again.Stop()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			unlock()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			unlock()
			return nil, fmt.Errorf("another program has locked %s: %w", dir, ctx.Err())
		}
	}
}
