package graph_test

import (
	"os"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
)

// TestTheDocumentedVersionsCompile compiles the definition that docs/graphs.md shows.
func TestTheDocumentedVersionsCompile(t *testing.T) {
	g, problems := graph.Compile(&definition(t, documented(t, "Versions")).Spec, commonKinds(t, ""))
	if problems != nil {
		t.Fatal(problems.Err())
	}
	if len(g.Versions) != 2 || g.Versions[0].Identical || !g.Versions[1].Identical {
		t.Errorf("the versions are %v", g.Versions)
	}
}

// TestTheDocumentedManifestFromElsewhereCompiles compiles what docs/graphs.md shows of it.
func TestTheDocumentedManifestFromElsewhereCompiles(t *testing.T) {
	g, problems := graph.Compile(&definition(t, documented(t, "Manifests from elsewhere")).Spec, commonKinds(t, ""))
	if problems != nil {
		t.Fatal(problems.Err())
	}
	if g.Name == nil || g.Nodes[0].OnDelete != v1alpha1.DeletionOrphan {
		t.Errorf("names are %v, and %s is %q on deletion", g.Name, g.Nodes[0].ID, g.Nodes[0].OnDelete)
	}
}

// documented is the first definition that a section of docs/graphs.md shows.
func documented(t *testing.T, section string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/graphs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	_, block, shown := strings.Cut(rest, "```yaml\n")
	block, _, ended := strings.Cut(block, "```")
	if !found || !shown || !ended {
		t.Fatal("it shows none")
	}
	return block
}
