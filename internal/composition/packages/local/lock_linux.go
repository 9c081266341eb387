package local

import (
	"os"
	"path/filepath"
	"syscall"
)

// lockShared keeps a directory of the store from being deleted.
func lockShared(dir string) (release func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil { // nobody uses what runs before have left
		left, _ := filepath.Glob(filepath.Join(dir, rootDirectory, ownDirectory, "*"))
		for _, name := range left {
			_ = os.RemoveAll(name)
		}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// removeUnlessUsed deletes a directory of the store, and returns whether it has.
func removeUnlessUsed(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	// Under another name first, so that no program takes a part of it for the image.
	unfinished := filepath.Join(filepath.Dir(dir), "unfinished-"+filepath.Base(dir))
	return os.Rename(dir, unfinished) == nil && os.RemoveAll(unfinished) == nil
}
