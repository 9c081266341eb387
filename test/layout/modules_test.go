package layout

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// separate are the modules that are not in the workspace, since they require other versions.
var separate = []string{"controlplane", "hack/licenses", "hack/protogen", "hack/release"}

// driver is the PostgreSQL driver. Only programs that serve the kinds of PostgreSQL compile it.
const driver = "github.com/jackc/pgx/v5"

// awsSDK is AWS's SDK. Packages that decide do not compile it.
const awsSDK = "github.com/aws/aws-sdk-go-v2"

// TestLibraryPackagesImportOnlyWhatTheyMay checks which packages a program compiles if it imports
// a package of the library.
func TestLibraryPackagesImportOnlyWhatTheyMay(t *testing.T) {
	engine := []string{"internal/instance", "internal/graph", "internal/composition", "internal/serving", "internal/program/server"}
	cases := map[string]struct {
		// internal are the packages of internal/ that are compiled; nil if no list is kept.
		internal []string
		// never is what is not compiled: packages of this repository, or import paths.
		never []string
	}{
		"sdk/managed":          {internal: []string{}, never: []string{driver, "providers", "k8s.io/client-go", "sigs.k8s.io/controller-runtime"}},
		"sdk/managed/external": {internal: []string{}, never: []string{driver, "providers"}},
		"sdk/managed/resource": {internal: []string{}, never: []string{driver, "providers"}},
		"sdk/function":         {internal: []string{}, never: []string{driver, "providers", "k8s.io"}},
		// The conformance kit runs the state machine of managed resources, and serve their controllers.
		"sdk/managed/conformance": {never: append([]string{driver, "providers"}, engine...)},
		"sdk/managed/serve":       {never: []string{driver, "providers", "internal/graph", "internal/composition", "internal/program/server"}},
		// The SDK is slow to compile: a program of its own has it.
		"cmd/espalier":           {never: []string{awsSDK}},
		"providers/sandbox":      {internal: []string{}, never: []string{driver}},
		"providers/aws/model":    {internal: []string{}, never: []string{awsSDK, driver, "k8s.io/client-go"}},
		"providers/aws/manifest": {internal: []string{}, never: []string{awsSDK, driver, "k8s.io/client-go"}},
		"providers/postgresql":   {internal: []string{}},
	}
	all := packages(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := all[module+name]
			if p == nil {
				t.Fatal("there is no such package")
			}
			var internal []string
			for _, path := range p.Deps {
				local, ours := strings.CutPrefix(path, module)
				if ours && within(local, "internal") {
					internal = append(internal, local)
				}
				for _, never := range tc.never {
					if within(path, never) || ours && within(local, never) {
						t.Errorf("it compiles %s", path)
					}
				}
			}
			slices.Sort(internal)
			if tc.internal != nil && !slices.Equal(internal, tc.internal) {
				t.Errorf("it compiles the packages %v of internal/, not %v", internal, tc.internal)
			}
		})
	}
	// The program does compile what is forbidden above, so that the check can fail.
	if program := all[module+"cmd/espalier"]; program == nil || !slices.Contains(program.Deps, driver) || !slices.Contains(program.Deps, module+"internal/program/server") {
		t.Error("the program compiles neither the driver nor the controllers")
	}
	withAWS := func(path string) bool { return within(path, awsSDK) }
	if program := all[module+"cmd/espalier/espalier-provider-aws"]; program == nil || !slices.ContainsFunc(program.Deps, withAWS) {
		t.Error("the program with AWS does not compile its SDK")
	}
}

// manifest is the part of a go.mod or go.work that the tests read.
type manifest struct {
	Module  struct{ Path string }
	Require []struct{ Path string }
	Replace []struct{ Old, New struct{ Path string } }
	Use     []struct{ DiskPath string }
}

func manifestOf(t *testing.T, args ...string) (out manifest) {
	t.Helper()
	raw, err := goCommand(args...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// modules are the folders of the repository's modules.
func modules(t *testing.T) (out []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.Name() == "go.mod":
			folder, err := filepath.Rel(root, filepath.Dir(path))
			out = append(out, filepath.ToSlash(folder))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheWorkspaceHasEveryModule(t *testing.T) {
	used := slices.Clone(separate)
	for _, u := range manifestOf(t, "work", "edit", "-json").Use {
		used = append(used, filepath.ToSlash(filepath.Clean(u.DiskPath)))
	}
	slices.Sort(used)
	if found := slices.Sorted(slices.Values(modules(t))); !slices.Equal(found, used) {
		t.Errorf("the modules are %v; those of the workspace, and the separate ones, are %v", found, used)
	}
}

// TestModulesRequireEachOtherOneWay checks that the root module requires no other module, so that
// its users do not depend on their versions, and that each module replaces the others by their
// folders in the repository.
func TestModulesRequireEachOtherOneWay(t *testing.T) {
	for _, folder := range modules(t) {
		m := manifestOf(t, "mod", "edit", "-json", filepath.Join(folder, "go.mod"))
		if want := strings.TrimSuffix(module+folder, "/."); m.Module.Path != want {
			t.Errorf("the module in %s is %s, not %s", folder, m.Module.Path, want)
		}
		for _, r := range m.Require {
			if !within(r.Path, strings.TrimSuffix(module, "/")) {
				continue
			}
			if folder == "." || strings.HasPrefix(folder, "providers/") && r.Path != strings.TrimSuffix(module, "/") {
				t.Errorf("%s requires %s", folder, r.Path)
			}
			replaced := false
			for _, p := range m.Replace {
				local := strings.TrimPrefix(strings.TrimPrefix(p.Old.Path, strings.TrimSuffix(module, "/")), "/")
				replaced = replaced || p.Old.Path == r.Path && filepath.Join(folder, p.New.Path) == filepath.Join(".", local)
			}
			if !replaced {
				t.Errorf("%s requires %s and does not replace it with its folder", folder, r.Path)
			}
		}
		if folder == "." && len(m.Replace) > 0 {
			t.Errorf("the root module replaces %v, which has no effect in modules that require it", m.Replace)
		}
	}
}
