// Package rings holds the design's rings as a test: which package is in which
// ring, what a ring may import, and what pure code may not touch.
package rings

import (
	"slices"
	"strings"
	"testing"
)

const module = "github.com/espalier-dev/espalier/"

// ring is how far from the middle a package is. Imports point inwards.
type ring int

const (
	pure        ring = iota // values in, values out
	effects                 // talk to the API server, decide nothing
	controllers             // a reconcile reads as a story
	edges                   // programs, wiring, tests
)

func (r ring) String() string {
	return [...]string{"pure", "effects", "controllers", "edges"}[r]
}

// home is the ring of a package and of what is below it.
var home = map[string]ring{
	"api":                pure,
	"internal/object":    pure,
	"internal/diag":      pure,
	"internal/dag":       pure,
	"internal/schema":    pure,
	"internal/expr":      pure,
	"internal/graph":     pure,
	"internal/crd":       pure,
	"internal/health":    pure,
	"internal/condition": pure,
	"internal/inventory": pure,
	"internal/plan":      pure,
	"internal/operation": pure,
	"internal/skeleton":  pure,
	"internal/view":      pure,
	"internal/outcome":   pure,
	"internal/report":    pure,
	"internal/revision":  pure,
	"internal/rights":    pure,
	"internal/tally":     pure,
	"internal/archive":   pure,
	"internal/usage":     pure,
	"internal/xrd":       pure,

	"internal/conversion":   pure,
	"internal/fieldmanager": pure,
	"internal/takeover":     pure,

	"internal/pipeline/structs": pure,

	"internal/function/autoready":         pure,
	"internal/function/call":              pure,
	"internal/function/fieldpath":         pure,
	"internal/function/graph":             pure,
	"internal/function/patchandtransform": pure,
	"internal/function/strict":            pure,

	"internal/cluster":   effects,
	"internal/dryrun":    effects,
	"internal/watch":     effects,
	"internal/engine":    effects,
	"internal/pipeline":  effects,
	"internal/function":  effects,
	"internal/telemetry": effects,

	"internal/controller": controllers,

	"internal/cli":        edges,
	"internal/compose":    edges,
	"internal/demo":       edges,
	"internal/embedded":   edges,
	"internal/follow":     edges,
	"internal/introspect": edges,
	"internal/kernel":     edges,
	"internal/manager":    edges,
	"internal/provide":    edges,
	"internal/server":     edges,
	"internal/testkit":    edges,
	"internal/transfer":   edges,
	"internal/web":        edges,
	"internal/webhook":    edges,
	"cmd":                 edges,
	"examples":            edges,
	"providers":           edges,
	"sdk":                 edges,

	"sdk/function/proto":   effects,
	"sdk/managed/external": pure,
	"sdk/managed/resource": pure,
	"test":                 edges,
}

// ringOf finds a package's ring by the longest folder that has one.
func ringOf(p *pkg) (ring, bool) {
	for at := strings.TrimPrefix(p.ImportPath, module); at != ""; {
		if r, ok := home[at]; ok {
			return r, true
		}
		i := strings.LastIndex(at, "/")
		if i < 0 {
			break
		}
		at = at[:i]
	}
	return 0, false
}

// rules are what a ring may not do. Each is looked for in the packages of its
// ring alone; tests are free.
var rules = []struct {
	sentence string
	ring     ring
	// linked packages may not be imported even by what is imported; imported
	// ones not by the package itself. A name means what is below it as well,
	// unless it ends in "$".
	linked, imported []string
	// called functions may not be used, as package.Function.
	called []string
}{
	{
		sentence: "Facts come in as values: only the effects talk to an API server",
		ring:     pure,
		linked:   []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
	},
	{
		sentence: "What takes a context waits for something, and pure code waits for nothing",
		ring:     pure,
		imported: []string{"context"},
	},
	{
		sentence: "Files, processes, the environment and the network belong to the edges",
		ring:     pure,
		imported: []string{"os", "net$", "net/http"},
	},
	{
		sentence: "Pure code returns what it has to say",
		ring:     pure,
		imported: []string{"log", "k8s.io/klog", "github.com/go-logr/logr"},
	},
	{
		sentence: "Time is an argument",
		ring:     pure,
		called:   []string{"time.Now", "time.Since", "time.Until", "time.After", "time.AfterFunc", "time.NewTimer", "time.Tick"},
	},
	{
		sentence: "Chance is an argument",
		ring:     pure,
		imported: []string{"math/rand", "crypto/rand"},
	},
	{
		sentence: "Effects wait for events and contexts, never for a time to go by",
		ring:     effects,
		called:   []string{"time.Sleep"},
	},
	{
		sentence: "Controllers wait for events and contexts, never for a time to go by",
		ring:     controllers,
		called:   []string{"time.Sleep"},
	},
	{
		sentence: "Controllers write through cluster and read through watch, not by clients of their own",
		ring:     controllers,
		imported: []string{"k8s.io/client-go/dynamic", "k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "sigs.k8s.io/controller-runtime/pkg/client"},
	},
}

func TestEveryPackageHasARing(t *testing.T) {
	for _, p := range packages(t) {
		if _, ok := ringOf(p); !ok {
			t.Errorf("%s is in no ring: say in this test where it belongs", p.ImportPath)
		}
	}
}

func TestImportsPointInwards(t *testing.T) {
	all := packages(t)
	for _, p := range all {
		from, ok := ringOf(p)
		if !ok {
			continue
		}
		for _, path := range p.Imports {
			imported, ours := all[path]
			if !ours {
				continue
			}
			if to, ok := ringOf(imported); ok && to > from {
				t.Errorf("%s (%s) imports %s (%s)", p.ImportPath, from, path, to)
			}
		}
	}
}

func TestRules(t *testing.T) {
	all := packages(t)
	for _, rule := range rules {
		t.Run(rule.sentence, func(t *testing.T) {
			for _, p := range all {
				if r, ok := ringOf(p); !ok || r != rule.ring {
					continue
				}
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
		})
	}
}

// TestRulesCanBeBroken makes sure that what the rules look at is there at all.
func TestRulesCanBeBroken(t *testing.T) {
	all := packages(t)
	cluster, server := all[module+"internal/cluster"], all[module+"internal/embedded"]
	if cluster == nil || !slices.ContainsFunc(cluster.Deps, func(path string) bool { return matches(path, []string{"k8s.io/client-go"}) }) {
		t.Error("the writer of children links no client")
	}
	if server == nil || !slices.ContainsFunc(server.uses(t), func(u use) bool { return u.name == "os/exec.Command" || u.name == "os/exec.CommandContext" }) {
		t.Error("the embedded control plane starts no program")
	}
	for path, want := range map[string]bool{"net": true, "net/url": false, "net/http": true, "os": true, "os/exec": true, "osprey": false} {
		if got := matches(path, []string{"os", "net$", "net/http"}); got != want {
			t.Errorf("%s: want %t", path, want)
		}
	}
}

func matches(path string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		exact, only := strings.CutSuffix(name, "$")
		return path == exact || !only && strings.HasPrefix(path, name+"/")
	})
}
