// Package reference tests docs/reference: what is generated there is current, what is listed is
// complete, and every example gives what the page says. With -update the tests write what is
// generated and what examples give; what people have to say they only ask for.
package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

const (
	root  = "../../.."
	pages = root + "/docs/reference"
)

// page is a page of the reference as a list of lines.
type page struct {
	name  string
	lines []string
}

func load(t *testing.T, name string) *page {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(pages, name))
	if err != nil {
		t.Fatal(err)
	}
	return &page{name: name, lines: strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")}
}

func (p *page) save(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(pages, p.name), []byte(strings.Join(p.lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// names are the pages, sorted.
func names(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

// block is a fenced example. Its info, such as "yaml definition", says what the example is made of.
type block struct {
	info        string
	first, last int // the lines between its fences, last excluded
	heading     string
}

func (b block) text(p *page) string { return strings.Join(p.lines[b.first:b.last], "\n") + "\n" }

func (b block) at(p *page) string { return fmt.Sprintf("%s:%d", p.name, b.first) }

// blocks are the page's examples in order.
func (p *page) blocks() []block {
	var out []block
	var open *block
	heading := ""
	for i, line := range p.lines {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{info: info, first: i + 1, heading: heading}
		case fence:
			open.last = i
			out, open = append(out, *open), nil
		case open == nil && strings.HasPrefix(line, "#"):
			heading = line
		}
	}
	return out
}

// replace puts other lines in place of some.
func (p *page) replace(first, last int, text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	p.lines = slices.Concat(p.lines[:first], lines, p.lines[last:])
}

// generated compares what stands between two comments of a page with what is generated:
//
//	<!-- generated: name -->
//	<!-- end -->
func (p *page) generated(t *testing.T, name, want string) {
	t.Helper()
	first := slices.Index(p.lines, "<!-- generated: "+name+" -->") + 1
	last := slices.Index(p.lines[first:], "<!-- end -->") + first
	if first == 0 || last < first {
		t.Fatalf("%s has no place for what is generated as %q", p.name, name)
	}
	want = "\n" + strings.TrimSpace(want) + "\n\n"
	got := strings.Join(p.lines[first:last], "\n") + "\n"
	if got == want {
		return
	}
	if golden.Update() {
		p.replace(first, last, want)
		p.save(t)
		return
	}
	t.Errorf("%s: what is generated as %q is not current; run go test ./test/docs/reference -update", p.name, name)
	for _, line := range difference(got, want) {
		t.Log(line)
	}
}

// difference lists lines that only one of two texts has.
func difference(got, want string) []string {
	var out []string
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "+ "+line)
		}
	}
	return out
}

// row is a row of a table below a heading.
type row struct {
	line    int
	heading string
	cells   []string
}

var cellEnd = regexp.MustCompile(`[^\\]\|`)

// rows are the rows of all tables of a page, without their heads.
func (p *page) rows() []row {
	var out []row
	heading, inTable, fenced := "", false, false
	for i, line := range p.lines {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		switch {
		case fenced:
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasPrefix(line, "|---"):
			inTable = true
		case inTable:
			out = append(out, row{line: i, heading: heading, cells: cells(line)})
		}
	}
	return out
}

// cells are the cells of a row.
func cells(line string) []string {
	var out []string
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	for rest := line + "|"; rest != ""; {
		at := cellEnd.FindStringIndex(rest)
		if at == nil {
			break
		}
		out = append(out, strings.TrimSpace(rest[:at[1]-1]))
		rest = rest[at[1]:]
	}
	return out
}

var codeSpan = regexp.MustCompile("``([^`].*?[^`])``|`([^`]+)`")

// codes are the spans of code in a text, as they are shown.
func codes(text string) []string {
	var out []string
	for _, found := range codeSpan.FindAllStringSubmatch(text, -1) {
		code := found[2]
		if found[1] != "" {
			code = strings.TrimSpace(found[1])
		}
		out = append(out, strings.ReplaceAll(code, `\|`, "|"))
	}
	return out
}

// code shows a text as code in a cell.
func code(text string) string {
	text = strings.ReplaceAll(text, "|", `\|`)
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}
