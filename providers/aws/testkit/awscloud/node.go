package awscloud

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// node is an answer of a native API, which is XML or JSON.
type node struct {
	text string
	// fields are an object's values, or an XML element's children by name, the first of each name.
	fields map[string]*node
	// items are a list's values, or all children of an XML element.
	items []*node
}

// get returns the node at a path of names, or an empty one.
func (n *node) get(path ...string) *node {
	for _, name := range path {
		if n = n.fields[name]; n == nil {
			return &node{}
		}
	}
	return n
}

func (n *node) empty() bool { return n.text == "" && len(n.fields) == 0 && len(n.items) == 0 }

// texts returns the texts of all fields of a name below the node, sorted, each once.
func (n *node) texts(name string) (out []string) {
	for key, field := range n.fields {
		if key == name && field.text != "" {
			out = append(out, field.text)
		}
		out = append(out, field.texts(name)...)
	}
	for _, item := range n.items {
		out = append(out, item.texts(name)...)
	}
	slices.Sort(out)
	return slices.Compact(out) // an element of XML is a field and an item
}

// parseNode reads an answer. An empty one is an empty node.
func parseNode(raw []byte) (*node, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return &node{}, nil
	}
	if raw[0] == '<' {
		return parseXML(raw)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("read the answer %.200q: %w", raw, err)
	}
	return nodeOf(value), nil
}

func nodeOf(value any) *node {
	n := &node{}
	switch v := value.(type) {
	case map[string]any:
		n.fields = make(map[string]*node, len(v))
		for name, field := range v {
			n.fields[name] = nodeOf(field)
		}
	case []any:
		for _, item := range v {
			n.items = append(n.items, nodeOf(item))
		}
	case nil:
	default:
		n.text = fmt.Sprint(v)
	}
	return n
}

func parseXML(raw []byte) (*node, error) {
	decoder := xml.NewDecoder(bytes.NewReader(raw))
	root := &node{}
	open := []*node{root}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer %.200q: %w", raw, err)
		}
		current := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			child := &node{}
			if current.fields == nil {
				current.fields = map[string]*node{}
			}
			if current.fields[t.Name.Local] == nil {
				current.fields[t.Name.Local] = child
			}
			current.items = append(current.items, child)
			open = append(open, child)
		case xml.EndElement:
			if current.fields != nil {
				current.text = ""
			}
			current.text = strings.TrimSpace(current.text)
			open = open[:len(open)-1]
		case xml.CharData:
			current.text += string(t)
		}
	}
	if len(root.items) == 0 {
		return root, nil
	}
	return root.items[0], nil
}

// properties returns what a native description says about a resource, in the shape of the type's
// schema. Names match if they differ in the case of their first letter only; aliases has the native
// name of others, by path.
func properties(t *resourcetype.Type, description *node, aliases map[string]string) map[string]any {
	out, ok := convert(t, &t.Schema, description, "", aliases).(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return out
}

func convert(t *resourcetype.Type, s *resourcetype.Schema, n *node, path string, aliases map[string]string) any {
	s = t.Resolve(s)
	if s == nil || n.empty() {
		return nil
	}
	switch kindOf(s) {
	case "object":
		if len(s.Properties) == 0 {
			return free(n)
		}
		out := map[string]any{}
		for name, property := range s.Properties {
			at := strings.TrimPrefix(path+"."+name, ".")
			field := find(n, name, aliases[at])
			if field == nil {
				continue
			}
			if value := convert(t, property, field, at, aliases); value != nil {
				out[name] = value
			}
		}
		if len(out) == 0 && path != "" {
			return nil
		}
		return out
	case "array":
		items := n.items
		// CloudFront writes its lists as a quantity and the items.
		if n.fields["Quantity"] != nil {
			items = n.get("Items").items
		}
		out := []any{}
		for _, item := range items {
			if value := convert(t, s.Items, item, path+"[]", aliases); value != nil {
				out = append(out, value)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case "boolean":
		value, err := strconv.ParseBool(n.text)
		if err != nil {
			return nil
		}
		return value
	case "integer", "number":
		value, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			return nil
		}
		return value
	case "": // alternatives, such as an object or a string
		return free(n)
	default:
		if n.text == "" {
			return nil
		}
		return n.text
	}
}

// kindOf returns the JSON type of values of a schema; a schema with properties is an object even if it has no type.
func kindOf(s *resourcetype.Schema) string {
	switch {
	case len(s.Properties) > 0 || slices.Contains(s.Types, "object"):
		return "object"
	case len(s.Types) > 0:
		return s.Types[0]
	default:
		return ""
	}
}

func find(n *node, name, alias string) *node {
	for _, candidate := range []string{alias, name, strings.ToLower(name[:1]) + name[1:]} {
		if field, ok := n.fields[candidate]; ok && candidate != "" {
			return field
		}
	}
	return nil
}

// free returns a node as a value without a schema: a policy document is a string with JSON in it.
func free(n *node) any {
	switch {
	case n.text != "":
		var document any
		if strings.ContainsAny(n.text[:1], "{[") && json.Unmarshal([]byte(n.text), &document) == nil {
			return document
		}
		if strings.HasPrefix(n.text, "%7B") { // IAM escapes documents as in a URL.
			if document, ok := policyDocument(n.text); ok {
				return document
			}
		}
		return n.text
	case n.fields == nil && len(n.items) > 0:
		list := []any{}
		for _, item := range n.items {
			list = append(list, free(item))
		}
		return list
	}
	out := map[string]any{}
	for name, field := range n.fields {
		if field.empty() {
			out[name] = ""
		} else {
			out[name] = free(field)
		}
	}
	return out
}
