package introspect

import (
	"errors"
	"os"
)

var errUnsupported = errors.New("the introspection socket is not supported on Windows")

// checkPrivate fails: the mode of a directory does not say on Windows who can reach the files in it.
func checkPrivate(string, int) error { return errUnsupported }

// tryLock fails, since Windows does not lock directories. checkPrivate fails before it.
func tryLock(*os.File) (bool, error) { return false, errUnsupported }
