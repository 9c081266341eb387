package source

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// MaxBytes bounds a file, and a document of it with its aliases replaced.
const MaxBytes = 16 << 20

// Document is one YAML document of a file.
type Document struct {
	// Object is its content, as the API server gets it: numbers are int64 or float64.
	Object map[string]any
	// lines are the lines of the whole file, and first is the number of lines before the
	// document.
	lines []string
	first int
	root  *yaml.Node
}

// Parse reads the documents of a file, and all its problems. Documents with a problem of
// syntax are left out; documents without content too.
func Parse(text string) ([]*Document, []Problem) {
	if len(text) > MaxBytes {
		return nil, []Problem{{Range: at(1, 1, 1), Message: fmt.Sprintf("the file has more than %d bytes", MaxBytes)}}
	}
	lines := strings.Split(text, "\n")
	var out []*Document
	var problems []Problem
	for _, part := range split(lines) {
		d, found := parse(lines, part)
		problems = append(problems, found...)
		if d != nil {
			out = append(out, d)
		}
	}
	return out, problems
}

type part struct{ first, end int }

// A separator is a line that begins with three hyphens and a space, or has nothing else.
func split(lines []string) []part {
	var out []part
	first := 0
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		if line == "---" || strings.HasPrefix(line, "--- ") || line == "..." {
			out = append(out, part{first, i})
			first = i + 1
			if strings.HasPrefix(line, "--- ") && !strings.HasPrefix(strings.TrimSpace(line[4:]), "#") {
				first = i // content on the line of the separator
			}
		}
	}
	return append(out, part{first, len(lines)})
}

func parse(lines []string, p part) (*Document, []Problem) {
	text := strings.Join(lines[p.first:p.end], "\n")
	if p.end < len(lines) {
		text += "\n" // the last line of a block is complete
	}
	d := &Document{lines: lines, first: p.first}
	root, err := bounded.Parse([]byte(text), MaxBytes)
	if err != nil {
		return nil, []Problem{d.syntaxProblem(err, p)}
	}
	if len(root.Content) == 0 || isNull(root.Content[0]) {
		return nil, nil
	}
	d.root = root.Content[0]
	if d.root.Kind != yaml.MappingNode {
		return nil, []Problem{{Range: d.rangeOf(d.root), Message: "a document must be an object with apiVersion and kind"}}
	}
	problems := d.duplicateKeys(d.root, nil)
	raw, err := sigsyaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = utiljson.Unmarshal(raw, &d.Object)
	}
	if err != nil && len(problems) == 0 {
		problems = append(problems, d.syntaxProblem(err, p))
	}
	if d.Object == nil {
		return nil, problems
	}
	return d, problems
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Which of two equal keys counts differs between readers.
func (d *Document) duplicateKeys(n *yaml.Node, out []Problem) []Problem {
	seen := map[string]int{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if line, twice := seen[c.Value]; twice && c.Kind == yaml.ScalarNode {
				out = append(out, Problem{Range: d.rangeOf(c), Message: fmt.Sprintf("the key %q is already in line %d", c.Value, line)})
			} else {
				seen[c.Value] = c.Line + d.first
			}
		}
		out = d.duplicateKeys(c, out)
	}
	return out
}

// lineOfError is how the YAML library names the line of an error.
var lineOfError = regexp.MustCompile(`^(?:.*?)line (\d+): `)

// It has the line of the file.
func (d *Document) syntaxProblem(err error, p part) Problem {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := p.first + 1
	if m := lineOfError.FindStringSubmatch(message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = min(p.first+n, len(d.lines))
		}
		message = message[len(m[0]):]
	}
	text := strings.TrimRight(d.lines[line-1], " \t\r")
	indent := len(text) - len(strings.TrimLeft(text, " \t"))
	return Problem{Range: at(line, indent+1, utf8.RuneCountInString(text)+1), Message: message}
}

// at is a range within a line.
func at(line, from, to int) Range {
	return Range{Start: Position{line, from}, End: Position{line, max(from, to)}}
}
