package xpkg

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	metav1 "github.com/espalier-dev/espalier/api/pkg/meta/v1"
	"github.com/espalier-dev/espalier/internal/diag/source"
	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// File is a part of a package: its whole stream, or one of the files that it is built of.
type File struct{ Name, Text string }

// Package is what a package consists of.
type Package struct {
	// Meta is the metadata; zero if the stream has none.
	Meta metav1.Package
	// Dependencies are the valid dependencies in the metadata, in their order.
	Dependencies []Dependency
	// Objects are all others, in the order of the stream. Those that are not installed are problems.
	Objects []*unstructured.Unstructured

	// meta is the metadata as it was read, with fields that are not in Meta.
	meta *unstructured.Unstructured
}

// Problem is something wrong with a package.
type Problem struct {
	// File and Line are where its document begins, or where it is in the document.
	File string
	Line int
	// Object is the kind and the name; empty if they are unknown.
	Object string
	// Message says what is wrong.
	Message string
	// Warning says that the package can be installed nevertheless. It cannot be built.
	Warning bool
}

// String is the problem on one line.
func (p Problem) String() string {
	text := fmt.Sprintf("%s:%d: ", p.File, p.Line)
	if p.Object != "" {
		text += p.Object + ": "
	}
	return text + p.Message
}

// Parse reads the documents of files, and finds all problems of the package.
func Parse(files ...File) (*Package, []Problem) {
	p := &parser{pkg: &Package{}}
	for _, f := range files {
		p.file(f)
	}
	p.lint()
	slices.SortStableFunc(p.problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	if n := len(p.problems); n > maxProblems {
		last := p.problems[maxProblems-1]
		p.problems = append(p.problems[:maxProblems-1], Problem{File: last.File, Line: last.Line, Message: fmt.Sprintf("and %d more problems", n-maxProblems+1)})
	}
	return p.pkg, p.problems
}

type parser struct {
	pkg      *Package
	problems []Problem
	// documents has the metadata and the objects, with their places.
	documents []document
	values    int
	full      bool
}

// document is an object with the place where it begins.
type document struct {
	file   string
	line   int
	object *unstructured.Unstructured
}

func (d document) problem(message string) Problem {
	name := d.object.GetKind()
	if n := d.object.GetName(); n != "" {
		name += " " + n
	}
	return Problem{File: d.file, Line: d.line, Object: name, Message: message}
}

func (d document) warning(message string) Problem {
	p := d.problem(message)
	p.Warning = true
	return p
}

func (p *parser) file(f File) {
	if len(f.Text) > MaxStream {
		p.problems = append(p.problems, Problem{File: f.Name, Line: 1, Message: fmt.Sprintf("it has more than %d bytes", MaxStream)})
		return
	}
	line, begin, first := 1, 0, 1
	end := func(at int) {
		if !p.full && strings.TrimSpace(f.Text[begin:at]) != "" {
			p.document(f.Name, first, f.Text[begin:at])
		}
	}
	for at := 0; at < len(f.Text); line++ {
		next := len(f.Text)
		if i := strings.IndexByte(f.Text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		if text := strings.TrimRight(f.Text[at:next], " \t\r\n"); text == "---" || text == "..." || strings.HasPrefix(text, "--- ") {
			end(at)
			if begin, first = next, line+1; strings.HasPrefix(text, "--- ") {
				begin, first = at, line // content, or a comment, on the line of the separator
			}
		}
		at = next
	}
	end(len(f.Text))
}

func (p *parser) document(file string, first int, text string) {
	p.values += bounded.Values([]byte(text))
	if p.values > maxValues || len(p.documents) >= maxDocuments {
		p.full = true
		p.problems = append(p.problems, Problem{File: file, Line: first, Message: fmt.Sprintf("the package has more than %d objects, or more than %d values in them", maxDocuments, maxValues)})
		return
	}
	content, problems := decode(text)
	for _, found := range problems {
		p.problems = append(p.problems, Problem{File: file, Line: first + found.Range.Start.Line - 1, Message: found.Message, Warning: content != nil})
	}
	if content == nil {
		return
	}
	d := document{file, first + leadingLines(text), &unstructured.Unstructured{Object: content}}
	if nestedDeeper(content, maxNesting) {
		p.problems = append(p.problems, d.problem(fmt.Sprintf("its values are nested deeper than %d levels", maxNesting)))
		return
	}
	p.documents = append(p.documents, d)
}

// decode returns the object of a document, or nil with the problems, or nil without any for an empty document. An object may have problems, too:
// then it is read as Crossplane does.
func decode(text string) (map[string]any, []source.Problem) {
	if err := bounded.Check([]byte(text), maxDocument); err == nil {
		if raw, err := sigsyaml.YAMLToJSONStrict([]byte(text)); err == nil {
			var out map[string]any
			if utiljson.Unmarshal(raw, &out) == nil {
				return out, nil
			}
		}
	}
	documents, problems := source.Parse(text)
	if len(documents) == 1 {
		return documents[0].Object, problems
	}
	return nil, problems
}

// leadingLines counts the lines before the first with content: comments and blank ones.
func leadingLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			break
		}
		n++
	}
	return n
}

func nestedDeeper(v any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, below := range v {
			if nestedDeeper(below, levels-1) {
				return true
			}
		}
	case []any:
		for _, below := range v {
			if nestedDeeper(below, levels-1) {
				return true
			}
		}
	}
	return false
}
