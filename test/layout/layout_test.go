// Package layout proves the layout of the code: which room a package is in, what a room may
// import, what pure packages may not touch, and what the modules of the repository require.
package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/espalier-dev/espalier/"

// floors are the rooms, from the ground up. A package imports from its own room and from the
// floors below it, so that neither dialects nor capabilities know each other. The ground
// floor is one vocabulary, whose parts may import each other.
var floors = [][]string{
	{
		"api", "internal/object", "internal/diag", "internal/dag", "internal/condition", "internal/reconcile",
		"sdk/managed/external", "sdk/managed/resource", "sdk/function/proto", "internal/managed/port", "sdk/managed",
	},
	{"internal/kube"},
	{"internal/telemetry"},
	{"internal/writer"},
	{"internal/instance"},
	{"internal/serving"},
	{"internal/manager"},
	{"internal/graph", "internal/composition", "internal/managed", "internal/protection"},
	{"internal/functions", "internal/backup", "internal/observe", "internal/takeover", "internal/webhook"},
	{"internal/server"},
	{"sdk/managed/serve", "sdk/managed/conformance", "sdk/function", "internal/testkit/certificate"},
	{"providers", "examples"},
	{"internal/testkit"},
	{"cmd"},
	{"test"},
}

// room finds the room of a package, and its floor.
func room(path string) (name string, floor int, found bool) {
	local := strings.TrimPrefix(path, module)
	for i, rooms := range floors {
		for _, r := range rooms {
			if within(local, r) && len(r) > len(name) {
				name, floor, found = r, i, true
			}
		}
	}
	return name, floor, found
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func TestEveryPackageHasARoom(t *testing.T) {
	for path := range packages(t) {
		if _, _, ok := room(path); !ok {
			t.Errorf("%s is in no room: add its folder to the floors of this test", path)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	all := packages(t)
	for path, p := range all {
		from, floor, _ := room(path)
		for _, imported := range p.Imports {
			if all[imported] == nil {
				continue
			}
			if problem := crossing(from, floor, imported); problem != "" {
				t.Errorf("%s imports %s: %s", strings.TrimPrefix(path, module), strings.TrimPrefix(imported, module), problem)
			}
		}
	}
}

// crossing says why a room on a floor may not import a package; empty if it may.
func crossing(from string, floor int, imported string) string {
	to, below, _ := room(imported)
	switch {
	case to == from, below < floor, floor == 0 && below == 0:
		return ""
	case below == floor:
		return fmt.Sprintf("%s and %s are on one floor", from, to)
	}
	return fmt.Sprintf("%s is above %s", to, from)
}

// rules are what packages may not do. Tests are free.
var rules = []struct {
	sentence string
	applies  func(*pkg) bool
	// linked packages may not be imported even by what is imported; imported
	// ones not by the package itself. A name means what is below it as well,
	// unless it ends in "$".
	linked, imported []string
	// called functions may not be used, as package.Function.
	called []string
}{
	{
		sentence: "Pure packages take facts as values: they link no client",
		applies:  isPure,
		linked:   []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
	},
	{
		sentence: "Pure packages wait for nothing: they take no context",
		applies:  isPure,
		imported: []string{"context"},
	},
	{
		sentence: "Pure packages use no files, processes, environment or network",
		applies:  isPure,
		imported: []string{"os", "net$", "net/http"},
	},
	{
		sentence: "Pure packages return what is to be logged",
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
		sentence: "Controllers wait for events and contexts, not for a time to pass",
		applies:  isEngine,
		called:   []string{"time.Sleep"},
	},
	{
		sentence: "Controllers write through internal/kube and read through its watches, not by clients of their own",
		applies: func(p *pkg) bool {
			return isEngine(p) && !in(p, "internal/kube", "internal/manager", "internal/webhook", "internal/server", "internal/observe", "internal/backup", "internal/takeover/migrate")
		},
		imported: []string{"k8s.io/client-go/dynamic", "k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "sigs.k8s.io/controller-runtime/pkg/client"},
	},
}

// isPure reports whether a package promises to be: its comment has a line that begins with "Pure:".
func isPure(p *pkg) bool { return p.pure }

// isEngine reports whether a package is part of what runs in the controllers' process.
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

// TestPurePackagesImportPureOnes keeps a decision from hiding behind a package that acts.
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

// TestRulesCanBeBroken makes sure that what the rules look at is there at all.
func TestRulesCanBeBroken(t *testing.T) {
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
		_, floor, _ := room(module + c.from)
		if crossing(c.from, floor, module+c.to) == "" {
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
