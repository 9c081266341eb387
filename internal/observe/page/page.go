// Package page computes what the pages of `espalier ui` show: the definitions, the instances of a kind with what is unready
// first, one instance as a graph, and the watches of the running program. Objects and the time come in; documents go out, and
// what of a document has changed since the last one. It builds on package observe, as the commands do, so that the page and the
// commands never disagree.
// See docs/design/0017-what-the-program-shows.md.
//
// Begin with Document; Overview, List, Instance and Definition make them, and Sender compares them.
//
// Documents have no ages, so that nothing changes while only time passes: the viewer computes ages from times.
//
// Pure: it decides from values alone.
package page

import (
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// Document is what a page shows: one head, and items in their order.
type Document struct {
	Head  any
	Items []Item
}

// Item is a part of a document that changes by itself: a row of a list, or a node of a graph. Keys are unique in a document.
type Item struct {
	Key   string
	Value any
}

// Advice is something that can be done. Command is a command to copy, if it ends in one.
type Advice struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"`
}

// adviceOf splits the commands off texts of advice.
func adviceOf(texts []string) []Advice {
	var out []Advice
	for _, text := range texts {
		before, command := observe.SplitCommand(text)
		out = append(out, Advice{Text: before, Command: command})
	}
	return out
}

// commandsFor are commands about an object, for people to copy: the page itself only reads.
func commandsFor(n observe.Node, isDefinition bool) []Advice {
	o := objectOf(n)
	if !n.Exists || o.Name == "" || n.Unseen {
		return nil
	}
	arguments := observe.ArgumentsOf(o)
	out := []Advice{
		{"Explain it in a terminal", "espalier why " + arguments},
		{"Show its object and its events", "kubectl describe " + arguments},
	}
	switch {
	case n.Deleted != nil:
		out = append(out, Advice{"Show what blocks its deletion", "espalier blockers " + arguments})
	case n.Instance:
		out = append(out, Advice{"Edit it", "kubectl edit " + arguments}, Advice{"Delete it with all its children", "espalier delete " + arguments + " --watch"})
	case isDefinition:
		out = append(out, Advice{"Edit it", "kubectl edit " + arguments})
	}
	return out
}

func objectOf(n observe.Node) report.Object {
	return report.Object{APIVersion: n.APIVersion, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}
}
