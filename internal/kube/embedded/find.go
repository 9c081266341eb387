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

// Find returns the path of the control plane program. It looks next to the running
// executable, at $ESPALIER_CONTROLPLANE, in bin/ of the module that contains the working
// directory, and in $PATH, in this order. If the variable is set and names no program, that
// is an error.
func Find() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), program); isExecutable(path) {
			return path, nil
		}
	}
	if path := os.Getenv(variable); path != "" {
		if !isExecutable(path) {
			return "", fmt.Errorf("%s is %q, which is not an executable file", variable, path)
		}
		return path, nil
	}
	if dir, err := os.Getwd(); err == nil {
		if path, ok := findBuilt(dir); ok {
			return path, nil
		}
	}
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s is neither next to this executable, nor in bin/ of the source tree, nor in the PATH: "+
		"build it with `make build`, or set %s to its path", program, variable)
}

// findBuilt looks for the program in bin/ of every module root from dir upward, the nearest first: the control plane's
// own module is nested in the module with the bin/ that it is built to.
func findBuilt(dir string) (path string, ok bool) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if path := filepath.Join(dir, "bin", program); isExecutable(path) {
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

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
