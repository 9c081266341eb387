package bounded

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// MaxValues bounds the values of a YAML document: parsing takes some hundred bytes for each, however short it is.
const MaxValues = 1_000_000

// Values estimates how many values a text in YAML or JSON has, without parsing it: it counts commas, opening brackets,
// and the hyphens, colons and question marks that begin a value. An entry of a map is one. Strings count as well.
func Values(text []byte) (n int) {
	last := byte('\n')
	for _, c := range text {
		switch c {
		case ',', '[', '{':
			n++
		case ' ', '\n', '\r', '\t':
			if last == ':' || last == '-' || last == '?' {
				n++
			}
		}
		last = c
	}
	return n
}

// Check returns an error for a YAML document that Parse refuses for its size. Only one that may have aliases is parsed.
func Check(text []byte, maxBytes int) error {
	if bytes.IndexByte(text, '*') < 0 {
		return checkText(text, maxBytes)
	}
	_, err := Parse(text, maxBytes)
	return err
}

func checkText(text []byte, maxBytes int) error {
	if len(text) > maxBytes {
		return fmt.Errorf("the document has more than %d bytes", maxBytes)
	}
	if Values(text) > MaxValues {
		return fmt.Errorf("the document has more than %d values", MaxValues)
	}
	return nil
}

// Parse parses a YAML document. It refuses one with more values than MaxValues, or with more values or bytes than
// allowed once each alias is replaced by what it stands for. An empty document is the zero node.
func Parse(text []byte, maxBytes int) (*yaml.Node, error) {
	if err := checkText(text, maxBytes); err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	e := expansion{maxBytes, map[*yaml.Node]size{}}
	_, err := e.size(&root)
	return &root, err
}

type size struct{ bytes, values int }

// unfinished is the size of a node that is being computed.
var unfinished = size{-1, -1}

// It computes the sizes of nodes with their aliases replaced.
type expansion struct {
	maxBytes int
	known    map[*yaml.Node]size // those with an anchor, so each node is visited once
}

func (e *expansion) size(n *yaml.Node) (total size, err error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if total, visited := e.known[n]; visited {
		if total == unfinished {
			return total, fmt.Errorf("the YAML anchor %q stands for a value that contains it", n.Anchor)
		}
		return total, nil
	}
	if n.Anchor != "" {
		e.known[n] = unfinished
	}
	total = size{len(n.Value), 1}
	for _, child := range n.Content {
		of, err := e.size(child)
		if err != nil {
			return total, err
		}
		if total.bytes, total.values = total.bytes+of.bytes, total.values+of.values; total.bytes > e.maxBytes || total.values > 2*MaxValues {
			return total, errors.New("its YAML aliases make the document too large")
		}
	}
	if n.Anchor != "" {
		e.known[n] = total
	}
	return total, nil
}
