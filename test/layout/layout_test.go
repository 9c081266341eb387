// Package layout tests the layout of the code: the layer of each package, what a layer may import,
// what pure packages may not use, and what the modules of the repository require.
// See docs/design/0015-modules-packages-and-the-embedded-server.md.
package layout

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/espalier-dev/espalier/"

// layers are lists of folders, the lowest floor first, as docs/architecture.md has them. A package may import packages of its
// own folder and of lower floors. So the dialects do not import each other. The folders of the lowest floor may import each
// other.
var layers = sync.OnceValue(func() [][]string {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		panic(err)
	}
	return readFloors(string(text))
})

// floorRow matches a row of the table of rooms: a floor and its folders. A folder within a room has no floor.
var floorRow = regexp.MustCompile("(?m)^\\| (\\d+) \\| (`[^|]*`) \\|")

func readFloors(text string) (out [][]string) {
	for _, row := range floorRow.FindAllStringSubmatch(text, -1) {
		floor, _ := strconv.Atoi(row[1])
		for len(out) < floor {
			out = append(out, nil)
		}
		for _, folder := range strings.Split(row[2], ", ") {
			out[floor-1] = append(out[floor-1], strings.Trim(folder, "`"))
		}
	}
	return out
}

// locate finds the folder of a package in layers, and the index of its layer.
func locate(path string) (folder string, layer int, found bool) {
	local := strings.TrimPrefix(path, module)
	for i, folders := range layers() {
		for _, f := range folders {
			if within(local, f) && len(f) > len(folder) {
				folder, layer, found = f, i, true
			}
		}
	}
	return folder, layer, found
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func TestEveryPackageHasALayer(t *testing.T) {
	for path := range packages(t) {
		if _, _, ok := locate(path); !ok {
			t.Errorf("%s is in no layer: add its folder to the table of rooms in docs/architecture.md", path)
		}
	}
}

func TestPackagesImportOnlyLowerLayers(t *testing.T) {
	all := packages(t)
	for path, p := range all {
		from, layer, _ := locate(path)
		for _, imported := range p.Imports {
			if all[imported] == nil {
				continue
			}
			if problem := violation(from, layer, imported); problem != "" {
				t.Errorf("%s imports %s: %s", strings.TrimPrefix(path, module), strings.TrimPrefix(imported, module), problem)
			}
		}
	}
}

// violation is why a folder of a layer may not import a package; empty if it may.
func violation(from string, layer int, imported string) string {
	to, other, _ := locate(imported)
	switch {
	case to == from, other < layer, layer == 0 && other == 0:
		return ""
	case other == layer:
		return fmt.Sprintf("%s and %s are in the same layer", from, to)
	}
	return fmt.Sprintf("%s is in a higher layer than %s", to, from)
}

// rules are what packages must not do. They do not apply to tests.
var rules = []struct {
	sentence string
	applies  func(*pkg) bool
	// linked packages may not be imported even indirectly, imported ones not directly. A name
	// includes the packages below it, unless it ends in "$".
	linked, imported []string
	// called functions may not be used, as package.Function.
	called []string
}{
	{
		sentence: "Pure packages link no client",
		applies:  isPure,
		linked:   []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
	},
	{
		sentence: "Pure packages do not wait: they import no context",
		applies:  isPure,
		imported: []string{"context"},
	},
	{
		sentence: "Pure packages use no files, processes, environment or network",
		applies:  isPure,
		imported: []string{"os", "net$", "net/http"},
	},
	{
		sentence: "Pure packages do not log",
		applies:  isPure,
		imported: []string{"log", "k8s.io/klog", "github.com/go-logr/logr"},
	},
	{
		sentence: "Pure packages take the time as an argument",
		applies:  isPure,
		called:   []string{"time.Now", "time.Since", "time.Until", "time.After", "time.AfterFunc", "time.NewTimer", "time.Tick"},
	},
	{
		sentence: "Pure packages take random values as arguments",
		applies:  isPure,
		imported: []string{"math/rand", "crypto/rand"},
	},
	{
		sentence: "Traces go through internal/telemetry/tracing, and only the program brings an implementation",
		applies:  func(p *pkg) bool { return !in(p, "internal/telemetry/tracing", "cmd/espalier", "test") },
		imported: []string{"go.opentelemetry.io/otel"},
	},
	{
		sentence: "Controllers do not sleep",
		applies:  isEngine,
		called:   []string{"time.Sleep"},
	},
	{
		sentence: "Controllers read and write through internal/kube, and create no other clients",
		applies: func(p *pkg) bool {
			return isEngine(p) && !in(p, "internal/kube", "internal/serving/cluster", "internal/program", "internal/simulation", "internal/observe", "internal/migration")
		},
		imported: []string{"k8s.io/client-go/dynamic", "k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "sigs.k8s.io/controller-runtime/pkg/client"},
	},
}

// isPure reports whether the comment of a package has a line that begins with "Pure:".
func isPure(p *pkg) bool { return p.pure }

// isEngine reports whether a package runs in the process of the controllers.
func isEngine(p *pkg) bool {
	return in(p, "internal") && !in(p, "internal/testkit", "internal/kube/embedded")
}

func in(p *pkg, folders ...string) bool {
	local := strings.TrimPrefix(p.ImportPath, module)
	return slices.ContainsFunc(folders, func(folder string) bool { return within(local, folder) })
}

func TestRules(t *testing.T) {
	all := packages(t)
	for _, rule := range rules {
		t.Run(rule.sentence, func(t *testing.T) {
			applied := 0
			for _, p := range all {
				if !rule.applies(p) {
					continue
				}
				applied++
				for _, path := range p.Deps {
					if matches(path, rule.linked) {
						t.Errorf("%s links %s", p.ImportPath, path)
					}
				}
				for _, path := range p.Imports {
					if matches(path, rule.imported) {
						t.Errorf("%s imports %s", p.ImportPath, path)
					}
				}
				for _, use := range p.uses(t) {
					if slices.Contains(rule.called, use.name) {
						t.Errorf("%s: %s", use.at, use.name)
					}
				}
			}
			if applied == 0 {
				t.Error("the rule applies to no package")
			}
		})
	}
}

// TestPurePackagesImportPureOnes checks direct imports only: those are pure, too.
func TestPurePackagesImportPureOnes(t *testing.T) {
	all := packages(t)
	for _, p := range all {
		if !p.pure {
			continue
		}
		for _, path := range p.Imports {
			if imported := all[path]; imported != nil && !imported.pure && !in(imported, "api", "sdk/function/proto") {
				t.Errorf("%s is pure and imports %s", p.ImportPath, path)
			}
		}
	}
}

// TestRulesDetectViolations checks that the rules would find what they forbid.
func TestRulesDetectViolations(t *testing.T) {
	all := packages(t)
	kube, server := all[module+"internal/kube"], all[module+"internal/kube/embedded"]
	if kube == nil || !slices.ContainsFunc(kube.Deps, func(path string) bool { return matches(path, []string{"k8s.io/client-go"}) }) {
		t.Error("internal/kube links no client")
	}
	if server == nil || !slices.ContainsFunc(server.uses(t), func(u use) bool { return u.name == "os/exec.Command" || u.name == "os/exec.CommandContext" }) {
		t.Error("the embedded control plane starts no program")
	}
	for path, want := range map[string]bool{"net": true, "net/url": false, "net/http": true, "os": true, "os/exec": true, "osprey": false} {
		if got := matches(path, []string{"os", "net$", "net/http"}); got != want {
			t.Errorf("%s: want %t", path, want)
		}
	}
	for _, c := range []struct{ from, to string }{
		{"internal/kube", "internal/instance"}, {"internal/graph", "internal/composition/xrd"}, {"providers", "cmd"}, {"cmd", "test"},
	} {
		_, layer, _ := locate(module + c.from)
		if violation(c.from, layer, module+c.to) == "" {
			t.Errorf("%s may import %s", c.from, c.to)
		}
	}
}

func matches(path string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		exact, only := strings.CutSuffix(name, "$")
		return path == exact || !only && strings.HasPrefix(path, name+"/")
	})
}
