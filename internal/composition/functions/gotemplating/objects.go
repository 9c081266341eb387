package gotemplating

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// maxValues bounds the values in an output: to parse one takes some hundred bytes.
const maxValues = 250_000

// objectsIn decodes the objects of an output, which has a YAML document for each, or an object in JSON. Empty documents are skipped.
func objectsIn(text string) ([]map[string]any, error) {
	if err := checkOutput(text); err != nil {
		return nil, err
	}
	var out []map[string]any
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1024)
	places := placesOf(text)
	for i := 0; ; i++ {
		var document json.RawMessage
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		at := place{number: i + 1}
		if i < len(places) {
			at = places[i]
		}
		if err != nil {
			return nil, at.yamlError(err)
		}
		if len(document) == 0 || string(document) == "null" {
			continue
		}
		var object map[string]any
		if err := kjson.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("%s of the output is not an object", at)
		}
		if kind, _ := object["kind"].(string); kind == "" {
			return nil, fmt.Errorf("%s of the output has no kind", at)
		}
		out = append(out, object)
	}
}

func checkOutput(text string) error {
	if bounded.Values([]byte(text)) > maxValues {
		return fmt.Errorf("the output has more than %d values", maxValues)
	}
	if !strings.Contains(text, "*") {
		return nil
	}
	for documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			if err = bounded.Check(document, maxText); err != nil && !isSyntaxError(err) {
				return err
			}
		}
	}
}

// isSyntaxError: the decoder reports these with their places.
func isSyntaxError(err error) bool { return strings.HasPrefix(err.Error(), "yaml: ") }

// place is a document in an output, and its first line.
type place struct {
	number int
	line   int
	lines  []string
}

func (p place) String() string {
	if p.line == 0 {
		return fmt.Sprintf("document %d", p.number)
	}
	return fmt.Sprintf("document %d (line %d)", p.number, p.line)
}

// placesOf splits an output as the decoder does: the separator is a line that begins with ---.
func placesOf(text string) []place {
	var out []place
	lines := strings.Split(text, "\n")
	begin := 0
	add := func(end int) {
		if begin < end && (len(out) > 0 || strings.TrimSpace(strings.Join(lines[begin:end], "")) != "") {
			out = append(out, place{number: len(out) + 1, line: begin + 1, lines: lines[begin:end]})
		}
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "---") {
			add(i)
			begin = i + 1
		}
	}
	add(len(lines))
	return out
}

var yamlLine = regexp.MustCompile(`yaml: line (\d+): (.*)$`)

// yamlError names the line in the output, and the field in that line: not its value, which may be secret.
func (p place) yamlError(err error) error {
	parts := yamlLine.FindStringSubmatch(err.Error())
	if parts == nil || p.line == 0 {
		return fmt.Errorf("%s of the output is not valid YAML: %s", p, diag.Truncate(err.Error(), 200))
	}
	line, _ := strconv.Atoi(parts[1])
	near := ""
	if line > 0 && line <= len(p.lines) {
		if field, _, isField := strings.Cut(strings.TrimSpace(p.lines[line-1]), ":"); isField {
			near = fmt.Sprintf(" near %q", diag.Truncate(field, 80)+":")
		}
	}
	return fmt.Errorf("line %d of the output (document %d, line %d)%s is not valid YAML: %s", p.line+line-1, p.number, line, near, parts[2])
}
