// Command licenses fails if a module that a shipped program is linked with has no license on the
// list of allowed ones. It finds licenses by their texts, in the directory of each linked package
// and in those above it.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// programs are the shipped programs, by module.
var programs = []struct{ module, path string }{
	{"cmd/espalier", "./..."},
	{"controlplane", "./cmd/..."},
	{"providers/aws", "./..."},
	{"providers/postgresql", "./..."},
	{"providers/sandbox", "./..."},
}

// allowed are the licenses, by SPDX identifier, that let a program under Apache-2.0 include a
// module without further conditions than to pass on its license.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// exceptions are further licenses of single modules.
var exceptions = map[string][]string{
	"github.com/cyphar/filepath-securejoin": {"MPL-2.0"},      // linked unmodified, its source is public
	"github.com/opencontainers/go-digest":   {"CC-BY-SA-4.0"}, // of its documentation, which is not linked
}

const ours = "github.com/espalier-dev/espalier"

// licenseFile matches the names of files with a license.
var licenseFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|unlicense)([-._].*)?$`)

// confidence is how much of a license's text must match, as for pkg.go.dev.
const confidence = 0.9

func main() {
	problems, checked, err := check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
	if len(problems) > 0 {
		fmt.Fprintf(os.Stderr, "modules without an allowed license (%s):\n  %s\nUse another module or, if the license fits Apache-2.0, add it to allowed or exceptions in hack/licenses/main.go.\n",
			strings.Join(allowed, ", "), strings.Join(problems, "\n  "))
		os.Exit(1)
	}
	fmt.Printf("%d modules have an allowed license\n", checked)
}

// linked is a package as go list prints it.
type linked struct {
	Dir    string
	Module *struct{ Path, Version, Dir string }
}

// check returns the modules without an allowed license, and how many were checked.
func check() (problems []string, checked int, err error) {
	found, err := assets.DefaultClassifier()
	if err != nil {
		return nil, 0, err
	}
	files := map[string]map[string]bool{} // license files by module
	for _, program := range programs {
		packages, err := list(program.module, program.path)
		if err != nil {
			return nil, 0, err
		}
		for _, p := range packages {
			if p.Module == nil || p.Module.Path == ours || strings.HasPrefix(p.Module.Path, ours+"/") {
				continue // the standard library, and our own modules
			}
			module := p.Module.Path + " " + p.Module.Version
			if files[module] == nil {
				files[module] = map[string]bool{}
			}
			for _, file := range licensesOf(p.Dir, p.Module.Dir) {
				files[module][file] = true
			}
		}
	}
	known := map[string][]string{}
	for module, licenses := range files {
		if len(licenses) == 0 {
			problems = append(problems, module+": no file with a license")
		}
		for file := range licenses {
			if _, ok := known[file]; !ok {
				raw, err := os.ReadFile(file)
				if err != nil {
					return nil, 0, err
				}
				known[file] = identify(found, raw)
			}
			path, _, _ := strings.Cut(module, " ")
			if why := problem(path, known[file]); why != "" {
				problems = append(problems, fmt.Sprintf("%s: %s: %s", module, filepath.Base(file), why))
			}
		}
	}
	slices.Sort(problems)
	return problems, len(files), nil
}

// list returns the packages that a program is linked with.
func list(module, path string) (packages []linked, err error) {
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "list", "-deps", "-json=Dir,Module", path)
	cmd.Dir, cmd.Stderr = module, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", module, err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linked
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, err
		}
		packages = append(packages, p)
	}
}

// licensesOf returns the license files that apply to a package: those of its directory, or else
// of the nearest one above it in the module.
func licensesOf(dir, root string) (files []string) {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() && licenseFile.MatchString(entry.Name()) && filepath.Ext(entry.Name()) != ".go" {
				files = append(files, filepath.Join(dir, entry.Name()))
			}
		}
		if len(files) > 0 || dir == root || len(dir) <= len(root) {
			return files
		}
		dir = filepath.Dir(dir)
	}
}

// identify returns the licenses in a text.
func identify(by *classifier.Classifier, text []byte) (names []string) {
	for _, match := range by.Match(text).Matches {
		if match.MatchType == "License" && match.Confidence >= confidence && !slices.Contains(names, match.Name) {
			names = append(names, match.Name)
		}
	}
	return names
}

// problem is why the licenses of a module are not allowed; empty if all are.
func problem(module string, names []string) string {
	if len(names) == 0 {
		return "the license is not known"
	}
	for _, name := range names {
		if !slices.Contains(allowed, name) && !slices.Contains(exceptions[module], name) {
			return "the license is " + name
		}
	}
	return ""
}
