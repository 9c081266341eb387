package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestAMissingKubeconfigIsAnErrorWithThePathsTried(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", missing)
	for _, args := range [][]string{{"tree", "vpc", "main"}, {"run"}, {"export"}} {
		code, _, errs := call(t.Context(), args...)
		if code != exitFailed || !strings.Contains(errs, missing) || !strings.Contains(errs, "--kubeconfig") || strings.Contains(errs, "KUBERNETES_MASTER") {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	if code, _, errs := call(t.Context(), "tree", "vpc", "main", "--kubeconfig", missing); code != exitFailed || !strings.Contains(errs, missing) {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
