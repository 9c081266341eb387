package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAProviderNewCompilesAndConforms generates a provider, compiles it and runs its test. The
// go command downloads go.mod files that the build of this module did not need. The plural of
// the kind is not its name with an s.
func TestAProviderNewCompilesAndConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program; run it without -short")
	}
	dir := filepath.Join(t.TempDir(), "it")
	code, out, errs := call(t.Context(), "provider", "new", "things", "--kind", "AccessPolicy", "--dir", dir, "--module", "example.net/x", "--replace", filepath.Join("..", "..", ".."))
	if code != exitDone || !strings.Contains(out, "go test ./...") {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	runGo := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod -buildvcs=false", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	runGo("vet", "./...")
	if out := runGo("test", "-v", "-run=TestConformance", "."); !strings.Contains(out, "scenarios") {
		t.Errorf("the output does not have the count of scenarios: %s", out)
	} else {
		t.Log(out)
	}
	if unformatted, err := exec.Command("gofmt", "-l", dir).CombinedOutput(); err != nil || len(unformatted) > 0 {
		t.Errorf("gofmt changes %s: %v", unformatted, err)
	}
	if os.Getenv("ESPALIER_TEST_FULL") != "" {
		before := contents(t, dir)
		runGo("generate", "./...")
		if contents(t, dir) != before {
			t.Error("the generated files are out of date")
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
		t.Errorf("the directory has %v, %v", there, err)
	}
}

func TestProviderNewArguments(t *testing.T) {
	cases := map[string]struct {
		args []string
		code int
		says string
	}{
		"without a name":                    {[]string{"provider", "new"}, exitUsage, "new takes a name"},
		"with an invalid name":              {[]string{"provider", "new", "My_Things"}, exitUsage, "the name"},
		"with an invalid kind":              {[]string{"provider", "new", "things", "--kind", "buckets"}, exitUsage, "the kind"},
		"with an invalid group":             {[]string{"provider", "new", "things", "--group", "things"}, exitUsage, "a domain of yours"},
		"with a checkout of another module": {[]string{"provider", "new", "things", "--replace", "/"}, exitFailed, "not a checkout of Espalier"},
		"without a subcommand":              {[]string{"provider"}, exitDone, ""},
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

func TestProviderRunArguments(t *testing.T) {
	cases := map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"No provider":         {nil, exitUsage, "takes the name of a provider"},
		"An unknown provider": {[]string{"clouds"}, exitUsage, "there is no provider clouds; there are aws and postgresql"},
		"An unknown flag":     {[]string{"postgresql", "--nothing"}, exitUsage, "flag provided but not defined: -nothing"},
		"Help":                {[]string{"postgresql", "--help"}, exitDone, "-leader-election-namespace"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := Main(t.Context(), append([]string{"provider", "run"}, tc.arguments...), &out, &errs); code != tc.code {
				t.Errorf("exit code %d", code)
			}
			if got := out.String() + errs.String(); !strings.Contains(got, tc.says) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestNewProviderNeedsACheckoutUntilThereIsARelease(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments []string
		want      bool
	}{
		"without a checkout": {nil, true},
		"with one":           {[]string{"--replace", filepath.Join("..", "..", "..")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"provider", "new", "things", "--dir", t.TempDir()}, tc.arguments...)...)
			if code != exitDone || strings.Contains(out, "  go mod edit -replace github.com/espalier-dev/espalier=CHECKOUT ") != tc.want {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}
