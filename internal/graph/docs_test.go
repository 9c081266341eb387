package graph_test

import (
	"os"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/graph"
)

// TestTheDocumentedVersionsCompile compiles the definition that docs/graphs.md shows.
func TestTheDocumentedVersionsCompile(t *testing.T) {
	text, err := os.ReadFile("../../docs/graphs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Versions\n")
	_, block, shown := strings.Cut(section, "```yaml\n")
	block, _, ended := strings.Cut(block, "```")
	if !found || !shown || !ended {
		t.Fatal("it shows none")
	}
	g, problems := graph.Compile(&definition(t, block).Spec, commonKinds(t, ""))
	if problems != nil {
		t.Fatal(problems.Err())
	}
	if len(g.Versions) != 2 || g.Versions[0].Same || !g.Versions[1].Same {
		t.Errorf("the versions are %v", g.Versions)
	}
}
