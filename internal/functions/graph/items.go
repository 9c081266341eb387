package graph

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// An item of a collection is a resource of its own, which is called by the collection and
// by what the object is called: workers[shop-alice].

// collectionOf is the collection that a resource is an item of, by its name.
func collectionOf(name string) (collection string, item bool) {
	collection, _, item = strings.Cut(name, "[")
	return collection, item && strings.HasSuffix(name, "]")
}

// wanted are the objects of a node, by the names of the resources; none if there are to
// be none. What is there stays while it can't be told what it should be: also items of
// which it isn't known whose they are.
func (c *composing) wanted(n *plan.Node) map[string]*unstructured.Unstructured {
	switch {
	case n.External || n.Variable || n.Skipped != "":
		return nil
	case n.Object != nil:
		return map[string]*unstructured.Unstructured{n.ID: n.Object}
	}
	out := map[string]*unstructured.Unstructured{}
	for name, r := range c.Observed.Resources {
		collection, item := collectionOf(name)
		open := n.Collection == "" || strings.HasPrefix(n.ID, n.Collection+"[#")
		if name == n.ID || item && open && (collection == n.ID || collection == n.Collection) {
			out[name] = applied(&unstructured.Unstructured{Object: r.Object})
		}
	}
	return out
}

// namesOf are the names of the resources of each collection that are there or are to be.
func (c *composing) namesOf(nodes []plan.Node) map[string][]string {
	found := map[string]map[string]bool{}
	note := func(collection, name string) {
		if found[collection] == nil {
			found[collection] = map[string]bool{}
		}
		found[collection][name] = true
	}
	for i := range nodes {
		if nodes[i].Collection != "" && nodes[i].Object != nil {
			note(nodes[i].Collection, nodes[i].ID)
		}
	}
	for name := range c.Observed.Resources {
		if collection, item := collectionOf(name); item {
			note(collection, name)
		}
	}
	out := make(map[string][]string, len(found))
	for collection, names := range found {
		out[collection] = slices.Sorted(maps.Keys(names))
	}
	return out
}

// named puts the names of a collection's resources in place of its id, which names none.
func named(ids []string, names map[string][]string) []string {
	var out []string
	for _, id := range ids {
		if items, ok := names[id]; ok {
			out = append(out, items...)
		} else {
			out = append(out, id)
		}
	}
	return out
}
