package graph

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Each item of a collection is a resource named after the collection's id and the name of the object:
// workers[shop-alice].

func collectionOf(name string) (collection string, item bool) {
	collection, _, item = strings.Cut(name, "[")
	return collection, item && strings.HasSuffix(name, "]")
}

// desiredObjects are the desired objects of a node by resource name; none if the node is
// skipped, external or a variable. While a node isn't resolved, its existing objects stay
// as they were last applied, including items that may belong to another node of the
// collection.
func (c *composition) desiredObjects(n *plan.Node) map[string]*unstructured.Unstructured {
	switch {
	case n.External || n.Variable || n.SkipMessage != "":
		return nil
	case n.Object != nil:
		return map[string]*unstructured.Unstructured{n.ID: n.Object}
	}
	out := map[string]*unstructured.Unstructured{}
	for name, r := range c.Observed.Resources {
		collection, item := collectionOf(name)
		open := n.Collection == "" || strings.HasPrefix(n.ID, n.Collection+"[#")
		if name == n.ID || item && open && (collection == n.ID || collection == n.Collection) {
			out[name] = lastApplied(&unstructured.Unstructured{Object: r.Object})
		}
	}
	return out
}

// collectionItemNames are the resource names of each collection's items, observed or desired.
func (c *composition) collectionItemNames(nodes []plan.Node) map[string][]string {
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

func expandCollections(ids []string, names map[string][]string) []string {
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
