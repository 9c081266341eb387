//go:build unix

package introspect

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkPrivate checks that a directory is accessible to this user alone and is not a symbolic
// link, so that no other user can reach or replace the files in it. Its errors say what to
// do.
func checkPrivate(dir string, user int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("the socket's directory: %w", err)
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("the socket's directory %s %s", dir, fmt.Sprintf(format, args...))
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	switch open := info.Mode().Perm() & 0o077; {
	case info.Mode().Type() == fs.ModeSymlink:
		return refuse("is a symbolic link: name the directory itself")
	case !info.IsDir():
		return refuse("is not a directory")
	case !known || int(stat.Uid) != user:
		return refuse("does not belong to this user (%d): choose one that does", user)
	case open != 0:
		return refuse("is open to others (mode %04o): make its mode 0700, or choose another", info.Mode().Perm())
	}
	return nil
}
