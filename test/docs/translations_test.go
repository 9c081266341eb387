// Package docs tests the pages that people read.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// page is what two translations of a page have in common.
type page struct {
	headings []int    // their levels
	blocks   []string // of code
	links    []string
	tests    []string
	rows     int // of tables
}

var (
	spans  = regexp.MustCompile("`[^`\n]+`")
	fences = regexp.MustCompile("(?s)```.*?```")
	links  = regexp.MustCompile(`\]\(([^)]+)\)`)
	tests  = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

// language is what names a translation's file.
const language = ".zh-CN.md"

func read(t *testing.T, path string) (p page, text string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	text = string(raw)
	p.blocks = fences.FindAllString(text, -1)
	text = fences.ReplaceAllString(text, "")
	for line := range strings.Lines(text) {
		if level := len(line) - len(strings.TrimLeft(line, "#")); level > 0 {
			p.headings = append(p.headings, level)
		}
		if strings.HasPrefix(line, "|") {
			p.rows++
		}
	}
	for _, found := range links.FindAllStringSubmatch(spans.ReplaceAllString(text, ""), -1) {
		p.links = append(p.links, found[1])
	}
	for _, found := range tests.FindAllStringSubmatch(text, -1) {
		p.tests = append(p.tests, found[1])
	}
	return p, text
}

// TestTranslationsSayTheSame compares the pages that there are in two languages: they have the
// same sections, the same commands, rows and tests, and lead to the same places.
func TestTranslationsSayTheSame(t *testing.T) {
	for _, name := range []string{"README.md", "docs/promises.md"} {
		t.Run(name, func(t *testing.T) {
			translated := strings.TrimSuffix(name, ".md") + language
			one, _ := read(t, name)
			other, _ := read(t, translated)
			if !slices.Equal(one.headings, other.headings) {
				t.Errorf("sections: %v and %v", one.headings, other.headings)
			}
			if len(one.blocks) == 0 || !slices.Equal(one.blocks, other.blocks) {
				t.Errorf("the blocks of code differ: %d and %d", len(one.blocks), len(other.blocks))
			}
			if one.rows != other.rows {
				t.Errorf("tables have %d and %d rows", one.rows, other.rows)
			}
			if !slices.Equal(sorted(one.tests), sorted(other.tests)) {
				t.Errorf("tests: %v and %v", one.tests, other.tests)
			}
			if a, b := places(one.links), places(other.links); !slices.Equal(a, b) {
				t.Errorf("links: %v and %v", a, b)
			}
		})
	}
}

// places are the targets of links, in whatever language.
func places(links []string) []string {
	var out []string
	for _, link := range links {
		out = append(out, strings.Replace(link, language, ".md", 1))
	}
	return sorted(slices.DeleteFunc(out, func(link string) bool { return link == "README.md" || link == "promises.md" })) // the other language
}

func sorted(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// TestPagesLeadSomewhere checks the links on the pages, and the names of tests.
func TestPagesLeadSomewhere(t *testing.T) {
	known := testsIn(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	reference, err := filepath.Glob(filepath.Join(root, "docs", "reference", "*.md"))
	if err != nil || len(reference) == 0 {
		t.Fatalf("the reference has no pages: %v", err)
	}
	pages = append(pages, reference...)
	pages = append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "README.zh-CN.md"))
	for _, path := range pages {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := read(t, name)
		for _, link := range p.links {
			target, section, _ := strings.Cut(link, "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s leads to %s, which is not there", name, link)
			} else if section != "" && !slices.Contains(sections(t, to), section) {
				t.Errorf("%s leads to %s, and the page has no such section", name, link)
			}
		}
		for _, test := range p.tests {
			if !known[test] {
				t.Errorf("%s names %s, which is not there", name, test)
			}
		}
	}
}

var marks = regexp.MustCompile(`[^\p{L}\p{N}\- ]`)

// sections are the names by which the headings of a page are linked to.
func sections(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(fences.ReplaceAllString(string(raw), "")) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := marks.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			out = append(out, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return out
}

// testsIn are the names of all tests.
func testsIn(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	out := map[string]bool{}
	for _, dir := range []string{"internal", "test", "sdk", "providers"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, found := range declared.FindAllStringSubmatch(string(raw), -1) {
				out[found[1]] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
