package language

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag/source"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/object"
)

type place struct {
	text   *Text
	offset int
	// line is the text of the line up to the byte, and first the line that the document begins at.
	line  string
	first int
	// document is the one around the byte; nil if unreadable even without the line. path is the field there. isName:
	// the byte is on its name. isNew: that is being written, not in the document, and path is its parent's.
	document      *source.Document
	path          object.Path
	isName, isNew bool
	// expression is the one around the byte, as far as it is on the same and the next lines, which begins at the byte begin of the text.
	expression string
	begin      int
	inside     bool
}

// newName stands for the name that is being written.
const newName = "espalierNewName"

var (
	// keyLine is a line with a name and the beginning of a value.
	keyLine = regexp.MustCompile(`^(\s*(?:- +)*)("[^"]*"|'[^']*'|[^\s#:"'{\[][^#:]*):(\s.*)?$`)
	// itemLine is a line with an item, and nameLine one on which a name may be written.
	itemLine = regexp.MustCompile(`^(\s*(?:- +)*-)(\s.*)?$`)
	nameLine = regexp.MustCompile(`^(\s*(?:- +)*)[A-Za-z0-9_./-]*$`)
)

// If the document has a problem of syntax, it is read without the value that is on the line.
func placeAt(text *Text, offset int) place {
	p := place{text: text, offset: offset}
	begin := strings.LastIndexByte(text.text[:offset], '\n') + 1
	p.line = text.text[begin:offset]
	p.findExpression()
	end := len(text.text)
	if i := strings.IndexByte(text.text[offset:], '\n'); i >= 0 {
		end = offset + i
	}
	whole := strings.TrimSuffix(text.text[begin:end], "\r")
	from, to := p.documentAround(begin, end)
	read := func(line string) bool {
		documents, problems := source.Parse(strings.Repeat("\n", p.first) + text.text[from:begin] + line + text.text[end:to])
		if len(problems) > 0 || len(documents) != 1 {
			return false
		}
		p.document = documents[0]
		return true
	}
	at := text.toSource(offset)
	if m := nameLine.FindStringSubmatch(p.line); m != nil && !p.inside && (p.line == whole || strings.TrimSpace(whole) == strings.TrimSpace(p.line)) {
		if read(m[1] + newName + ": x") {
			at.Column = len([]rune(m[1])) + 1
			path, isName := p.document.At(at)
			if steps := path.Segments(); isName && len(steps) > 0 && steps[len(steps)-1] == newName {
				p.path, p.isNew = parentOf(path), true
				return p
			}
		}
	}
	if read(whole) || p.readWithout(whole, read) {
		p.path, p.isName = p.document.At(at)
	}
	return p
}

func (p *place) readWithout(line string, read func(string) bool) bool {
	if m := keyLine.FindStringSubmatch(line); m != nil && read(m[1]+m[2]+": x") {
		return true
	}
	if m := itemLine.FindStringSubmatch(line); m != nil && read(m[1]+" x") {
		return true
	}
	return read("")
}

func parentOf(path object.Path) object.Path {
	var out object.Path
	steps := path.Segments()
	for _, step := range steps[:max(len(steps)-1, 0)] {
		out = appendStep(out, step)
	}
	return out
}

func appendStep(path object.Path, step any) object.Path {
	if i, isIndex := step.(int); isIndex {
		return path.Index(i)
	}
	name, _ := step.(string)
	return path.Field(name)
}

// to counts the lines before it.
func (p *place) documentAround(begin, end int) (from, to int) {
	text := p.text.text
	for at := 0; at < begin; {
		next := strings.IndexByte(text[at:], '\n') + 1
		if next == 0 {
			break
		}
		if isSeparator(text[at : at+next]) {
			from = at + next
		}
		at += next
	}
	p.first = strings.Count(text[:from], "\n")
	for at := end; at < len(text); {
		line, _, _ := strings.Cut(text[at+1:], "\n")
		if isSeparator(line) {
			return from, at + 1
		}
		at += len(line) + 1
	}
	return from, len(text)
}

func isSeparator(line string) bool {
	line = strings.TrimRight(line, " \r\n")
	return line == "---" || line == "..."
}

// maxExpressionLines bounds how far back the beginning of an expression is searched, and maxExpressionBytes how long it may be.
const (
	maxExpressionLines = 100
	maxExpressionBytes = 64 << 10
)

// It uses the text alone.
func (p *place) findExpression() {
	text := p.text.text
	limit := max(0, p.offset-maxExpressionBytes)
	open := strings.LastIndex(text[limit:p.offset], "${")
	if open < 0 {
		return
	}
	p.begin = limit + open + len("${")
	until := text[:p.begin]
	isQuoted := quotes(until[strings.LastIndexByte(until, '\n')+1:])%2 == 1
	before := text[p.begin:p.offset]
	if isQuoted {
		before = unescaped(before)
	}
	if expr.EndsBefore(before) || strings.Count(before, "\n") > maxExpressionLines || isLeft(until, before) {
		return
	}
	p.inside = true
	end := min(len(text), p.offset+maxExpressionBytes)
	rest := text[p.offset:end]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	if isQuoted {
		rest = unescaped(rest)
	}
	p.expression = before + rest
}

// Escaped quotes do not count.
func quotes(line string) int { return strings.Count(line, `"`) - strings.Count(line, `\"`) }

// The length stays the same.
func unescaped(text string) string { return strings.ReplaceAll(text, `\"`, ` "`) }

// They come after the beginning of an expression, and no longer belong to its value.
func isLeft(until, after string) bool {
	line := until[strings.LastIndexByte(until, '\n')+1:]
	indent := len(line) - len(strings.TrimLeft(line, " "))
	lines := strings.Split(after, "\n")
	for _, next := range lines[1:] {
		own := len(next) - len(strings.TrimLeft(next, " "))
		if strings.TrimSpace(next) != "" && (own < indent || own == indent && keyLine.MatchString(strings.TrimRight(next, "\r"))) {
			return true
		}
	}
	return false
}

// The text may be newer than the checked one. If the document there cannot be read, it is the last one that could,
// without a path.
func (c *Checked) at(name string, text *Text, offset int) place {
	p := placeAt(text, offset)
	f := c.files[name]
	if p.document != nil || f == nil || f.good == nil {
		return p
	}
	line := text.toSource(offset).Line
	for _, d := range f.good.Documents() {
		if d.Range("").Start.Line <= line {
			p.document = d.Document
		}
	}
	return p
}

// It is the definition of a graph around a place, as far as it compiles.
type definition struct {
	*graph.Partial
	document *source.Document
}

// It is nil if there is none.
func (c *Checked) definitionAt(p place) *definition {
	if p.document == nil {
		return nil
	}
	raw, _ := p.document.Object["spec"].(map[string]any)
	gvk := gvkOf(p.document.Object)
	switch {
	case raw == nil:
		return nil
	case isGraph(gvk):
		spec, _ := graph.Read(raw)
		return &definition{Partial: graph.CompilePartially(spec, c.kindsUsed(graph.UsedKinds(spec))), document: p.document}
	case gvk == graph.GraphKind:
		spec, _ := graph.ReadGraph(raw)
		return &definition{Partial: graph.CompileGraphPartially(spec, c.kindsUsed(graph.UsedKindsOfGraph(spec, nil))), document: p.document}
	}
	return nil
}

func (c *Checked) kindsUsed(used []schema.GroupVersionKind) graph.Kinds {
	kinds := graph.Kinds{}
	for _, gvk := range used {
		if kind, known := c.lookUp(gvk); known || kind.NeverServed {
			kinds[gvk] = kind
		}
	}
	return kinds
}

func isGraph(gvk schema.GroupVersionKind) bool {
	return gvk.Group == v1alpha1.GroupVersion.Group && (gvk.Kind == v1alpha1.ResourceGraphDefinitionKind || gvk.Kind == v1alpha1.ResourceGroupKind)
}

func gvkOf(o map[string]any) schema.GroupVersionKind {
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// It is nil if there is none.
func valueAt(v any, path object.Path) any {
	for _, step := range path.Segments() {
		switch step := step.(type) {
		case string:
			fields, _ := v.(map[string]any)
			v = fields[step]
		case int:
			items, _ := v.([]any)
			if step >= len(items) {
				return nil
			}
			v = items[step]
		}
	}
	return v
}
