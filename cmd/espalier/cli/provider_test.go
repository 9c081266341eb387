package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAProviderNewCompilesAndConforms writes a provider and lets the compiler and its own
// test see whether it is one. The go command fetches what this module's build did not need:
// go.mod files of modules that it only chooses between. Its kind has a plural that isn't the
// name with an s.
func TestAProviderNewCompilesAndConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program; run it without -short")
	}
	dir := filepath.Join(t.TempDir(), "it")
	code, out, errs := call(t.Context(), "provider", "new", "things", "--kind", "AccessPolicy", "--dir", dir, "--module", "example.net/x", "--replace", filepath.Join("..", "..", ".."))
	if code != exitDone || !strings.Contains(out, "go test ./...") {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	goes := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	goes("vet", "./...")
	if out := goes("test", "-v", "-run=TestConformance", "."); !strings.Contains(out, "scenarios") {
		t.Errorf("the output does not have the count of scenarios: %s", out)
	} else {
		t.Log(out)
	}
	if unformatted, err := exec.Command("gofmt", "-l", dir).CombinedOutput(); err != nil || len(unformatted) > 0 {
		t.Errorf("gofmt has something to change: %s %v", unformatted, err)
	}
	if os.Getenv("ESPALIER_TEST_FULL") != "" {
		was := contents(t, dir)
		goes("generate", "./...")
		if contents(t, dir) != was {
			t.Error("what is generated isn't current")
		}
	}
}

// contents are the files below api.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(dir, "api"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all.WriteString(path + "\n" + string(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestProviderNewOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := call(t.Context(), "provider", "new", "things", "--dir", dir)
	if code != exitFailed || !strings.Contains(errs, "main.go already exists") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	there, err := os.ReadDir(dir)
	if err != nil || len(there) != 1 {
		t.Errorf("there is %v, %v", there, err)
	}
}

func TestProviderNewArguments(t *testing.T) {
	cases := map[string]struct {
		args []string
		code int
		says string
	}{
		"without a name":                       {[]string{"provider", "new"}, exitUsage, "accepts 1 arg"},
		"with a name that can't be":            {[]string{"provider", "new", "My_Things"}, exitUsage, "the name"},
		"with a kind that can't be":            {[]string{"provider", "new", "things", "--kind", "buckets"}, exitUsage, "the kind"},
		"with a group that can't be":           {[]string{"provider", "new", "things", "--group", "things"}, exitUsage, "a domain of yours"},
		"with a checkout of something else":    {[]string{"provider", "new", "things", "--replace", "/"}, exitFailed, "not a checkout of Espalier"},
		"with nothing to be done but the help": {[]string{"provider"}, exitDone, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			code, _, errs := call(t.Context(), tc.args...)
			if code != tc.code || !strings.Contains(errs, tc.says) {
				t.Errorf("exit code %d: %s", code, errs)
			}
			if there, _ := os.ReadDir("."); len(there) > 0 {
				t.Errorf("something was written: %v", there)
			}
		})
	}
}
