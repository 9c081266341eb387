package diagram_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/object/diagram"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

var webapp = diagram.Diagram{
	Title: "WebApp",
	Nodes: []diagram.Node{
		{ID: "schema", Title: "WebApp", Lines: []string{"the instance"}},
		{ID: "config", Title: "config", Lines: []string{"ConfigMap"}, Tone: diagram.Good},
		{ID: "name", Title: "name", Lines: []string{"value"}, Shape: diagram.Rounded},
		{ID: "issuer", Title: "issuer", Lines: []string{"Issuer", "external"}, Shape: diagram.Dashed, Tone: diagram.Muted},
		{ID: "web", Title: "web", Lines: []string{"Deployment"}, Tone: diagram.Progress},
		{ID: "shards", Title: "shards", Lines: []string{"StatefulSet"}, Shape: diagram.Stacked, Tone: diagram.Bad},
		{ID: "route", Title: "route", Lines: []string{`if "${schema.spec.host}" != <none> && true`}},
	},
	Edges: []diagram.Edge{
		{From: "schema", To: "config"}, {From: "schema", To: "name"}, {From: "config", To: "web"}, {From: "name", To: "web"}, {From: "name", To: "shards"},
		{From: "issuer", To: "route", Dashed: true, Label: "deleted later"}, {From: "web", To: "route"}, {From: "schema", To: "route"}, {From: "route", To: "nowhere"},
	},
}

func TestDrawings(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(_ *testing.T, a *golden.Archive) {
		a.Record("dot", webapp.Dot())
		a.Record("mermaid", webapp.Mermaid())
		a.Record("svg", webapp.SVG())
	})
}

// TestLayouts places random graphs, with cycles.
func TestLayouts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d diagram.Diagram
		n := rapid.IntRange(0, 25).Draw(t, "nodes")
		for i := range n {
			d.Nodes = append(d.Nodes, diagram.Node{ID: fmt.Sprint(i), Title: rapid.String().Draw(t, "title"), Lines: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "lines")})
		}
		isAcyclic := rapid.Bool().Draw(t, "acyclic")
		for range rapid.IntRange(0, 50).Draw(t, "edges") {
			from, to := rapid.IntRange(0, n).Draw(t, "from"), rapid.IntRange(0, n).Draw(t, "to")
			if isAcyclic && from > to {
				from, to = to, from
			}
			d.Edges = append(d.Edges, diagram.Edge{From: fmt.Sprint(from), To: fmt.Sprint(to), Label: rapid.String().Draw(t, "label")})
		}
		l := diagram.Place(d)
		if diff := cmp.Diff(l, diagram.Place(d)); diff != "" {
			t.Fatalf("the second layout differs: %s", diff)
		}
		for i, a := range l.Nodes {
			if a.X < 0 || a.Y < 0 || a.X+a.Width > l.Width || a.Y+a.Height > l.Height {
				t.Fatalf("%+v is outside of %d×%d", a, l.Width, l.Height)
			}
			for _, b := range l.Nodes[:i] {
				if a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height {
					t.Fatalf("%+v and %+v overlap", a, b)
				}
			}
		}
		for _, e := range l.Edges {
			for i := 1; i < len(e.Points) && isAcyclic; i++ {
				if e.Points[i].X < e.Points[i-1].X {
					t.Fatalf("the edge from %s to %s leads back: %v", e.From, e.To, e.Points)
				}
			}
		}
		checkXML(t, l.SVG(rapid.String().Draw(t, "name")))
	})
}

func checkXML(t *rapid.T, text string) {
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
}
