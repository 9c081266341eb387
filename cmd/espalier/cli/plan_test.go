package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPlanRefusesWrongArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(file, []byte("a: [\n---\nkind: ConfigMap\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no files":       {[]string{"plan"}, exitUsage, "plan takes files: -f FILE"},
		"a format":       {[]string{"plan", "-f", file, "-o", "xml"}, exitUsage, "must be one of table, json, yaml, markdown"},
		"no time":        {[]string{"plan", "-f", file, "--wait", "0s"}, exitUsage, "--wait must be longer than 0"},
		"secret outputs": {[]string{"plan", "-f", file, "--secret-outputs", "Show"}, exitUsage, "Show"},
		"a missing file": {[]string{"plan", "-f", file + ".none"}, exitFailed, "no such file"},
		"a broken file":  {[]string{"plan", "-f", file}, exitFailed, "broken.yaml:3:1: an object must have apiVersion, kind and metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := call(t.Context(), tc.args...)
			if code != tc.code || !strings.Contains(stderr, tc.want) {
				t.Errorf("code %d: %s", code, stderr)
			}
		})
	}
}

func TestAForbiddenPlanSaysWhoseRightsItNeeds(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, "", errors.New("no role"))
	err := planError(fmt.Errorf("list CustomResourceDefinitions: %w", forbidden))
	if text := err.Error(); !strings.Contains(text, "no role") || !strings.Contains(text, "a plan needs the permissions of the controllers") || !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if other := errors.New("no such file"); !errors.Is(planError(other), other) || planError(other).Error() != other.Error() {
		t.Error(planError(other))
	}
	if err := planError(nil); err != nil {
		t.Error(err)
	}
}
