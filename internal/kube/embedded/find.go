package embedded

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	program  = "espalier-controlplane"
	variable = "ESPALIER_CONTROLPLANE"
)

// Find returns the path of the control plane program. It looks next to the running executable,
// at $ESPALIER_CONTROLPLANE, in bin/ of the module that holds the working directory, and in $PATH,
// in this order. A variable that names no program is an error, since somebody meant it.
func Find() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), program); runnable(path) {
			return path, nil
		}
	}
	if path := os.Getenv(variable); path != "" {
		if !runnable(path) {
			return "", fmt.Errorf("%s is %q, which is not a program", variable, path)
		}
		return path, nil
	}
	if dir, err := os.Getwd(); err == nil {
		if path, ok := built(dir); ok {
			return path, nil
		}
	}
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s is neither next to this executable, nor in bin/ of the source tree, nor in the PATH: "+
		"build it with `make build`, or set %s to its path", program, variable)
}

// built looks for the program in bin/ of every module root from dir upward, the nearest first: the
// control plane's own module lies within the one whose bin/ it is built to.
func built(dir string) (path string, ok bool) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if path := filepath.Join(dir, "bin", program); runnable(path) {
				return path, true
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
