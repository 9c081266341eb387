package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Kubectl returns the absolute path of the repository's kubectl, which it builds unless it is there.
func Kubectl(tb testing.TB) string {
	tb.Helper()
	root, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	build := "hack/build.sh"
	for _, err := os.Stat(filepath.Join(root, build)); err != nil; _, err = os.Stat(filepath.Join(root, build)) {
		if root = filepath.Dir(root); root == filepath.Dir(root) {
			tb.Fatalf("%s is in no directory above the test's", build)
		}
	}
	path := filepath.Join(root, "bin", "kubectl")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if out, err := exec.CommandContext(tb.Context(), filepath.Join(root, build), "kubectl").CombinedOutput(); err != nil {
		tb.Fatalf("build kubectl: %v\n%s", err, out)
	}
	return path
}
