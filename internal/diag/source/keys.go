package source

import (
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// plainWord matches keys that are the same text in every version of YAML.
var plainWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]{5,}$`)

// MisreadKeys lists the keys without quotes that are not read as they are written: in YAML 1.1, as the
// Kubernetes tools read it, n and on are booleans, and 010 is a number.
func (d *Document) MisreadKeys() []Problem {
	var out []Problem
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				if read, other := readAs(c); other {
					out = append(out, Problem{Range: d.rangeOf(c), Message: fmt.Sprintf("the key %s is read as %q; put it in quotes if it is meant as it is written",
						c.Value, read)})
				}
			}
			visit(c)
		}
	}
	visit(d.root)
	return out
}

// The bool reports whether that is another text than the written one.
func readAs(key *yaml.Node) (string, bool) {
	if key.Kind != yaml.ScalarNode || key.Style != 0 || key.Value == "<<" || plainWord.MatchString(key.Value) {
		return "", false
	}
	var read map[string]any
	if sigsyaml.Unmarshal([]byte(key.Value+": 1"), &read) != nil || len(read) != 1 {
		return "", false
	}
	_, same := read[key.Value]
	for text := range read {
		return text, !same
	}
	return "", false
}
