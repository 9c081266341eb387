package source

import "go.yaml.in/yaml/v3"

// Items returns the objects of a List, as 'kubectl get -o yaml' prints it, with their places; of another document, the document itself.
// Items that are not objects are problems.
func (d *Document) Items() ([]*Document, []Problem) {
	if d.Object["apiVersion"] != "v1" || d.Object["kind"] != "List" {
		return []*Document{d}, nil
	}
	items, _ := d.Object["items"].([]any)
	_, nodes := child(d.root, "items")
	if nodes == nil {
		return nil, nil
	}
	var out []*Document
	var problems []Problem
	for i, item := range items {
		_, node := child(nodes, i) // a sequence, or an alias of one, has all items
		o, isObject := item.(map[string]any)
		if !isObject {
			problems = append(problems, Problem{Range: d.rangeOf(node), Message: "an item of a List must be an object with apiVersion and kind"})
			continue
		}
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		below, found := (&Document{Object: o, lines: d.lines, first: d.first, root: node}).Items()
		out, problems = append(out, below...), append(problems, found...)
	}
	return out, problems
}
