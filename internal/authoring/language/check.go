package language

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Limits, so a file cannot keep an editor busy.
const (
	// MaxTextBytes bounds a text that is checked.
	MaxTextBytes = 4 << 20
	// maxDiagnostics bounds what is reported of one file.
	maxDiagnostics = 500
)

// Severity is how bad a diagnostic is, as the Language Server Protocol counts.
type Severity int

// Severities.
const (
	Error   Severity = 1
	Warning Severity = 2
)

// Diagnostic is a problem of a text.
type Diagnostic struct {
	Range    Range
	Severity Severity
	Message  string
}

// Options configure a check.
type Options struct {
	// Workspace has the options of the compilers, without further kinds.
	Workspace workspace.Options
	// Kinds looks up kinds that neither the texts nor Kubernetes have; it is optional.
	Kinds func(schema.GroupVersionKind) (object.KindInfo, bool)

	// check is workspace.New except in tests.
	check func([]*workspace.File, workspace.Options) *workspace.Workspace
}

// Checked is the result of a check. It is immutable and safe for concurrent use.
type Checked struct {
	options   Options
	files     map[string]*file
	workspace *workspace.Workspace
	found     map[string][]Diagnostic
}

// file is a text as far as it could be parsed.
type file struct {
	text   *Text
	parsed *workspace.File
	// good is the last state without problems of syntax; nil if there was none.
	good *workspace.File
	// failure is why the text was not checked.
	failure string
}

// Check checks texts by their names. Those that are the same as in an earlier result, which may be nil, are not parsed
// again. While a text has problems of syntax, the kinds that it defined before are still known, so other texts have no
// problems because of it. A panic of a compiler is a problem of the texts that have changed.
func Check(earlier *Checked, texts map[string]*Text, o Options) *Checked {
	c := &Checked{options: o, files: map[string]*file{}, found: map[string][]Diagnostic{}}
	if o.check == nil {
		c.options.check = workspace.New
	}
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		before := earlier.file(name)
		if before != nil && before.text == texts[name] {
			c.files[name] = before
			continue
		}
		changed = append(changed, name)
		c.files[name] = newFile(name, texts[name], before)
	}
	if failure := c.run(); failure != "" {
		for _, name := range changed {
			c.files[name].failure = failure
		}
		if c.run() != "" {
			c.workspace = c.options.check(nil, c.options.Workspace)
		}
	}
	c.collect()
	return c
}

func (c *Checked) file(name string) *file {
	if c == nil {
		return nil
	}
	return c.files[name]
}

// It matches texts that may contain objects of Kubernetes: other texts are left alone.
var isManifest = regexp.MustCompile(`(?m)^[\s"{-]*(apiVersion|kind)"?\s*:`)

func newFile(name string, text *Text, before *file) (f *file) {
	f = &file{text: text}
	if before != nil {
		f.good = before.good
	}
	switch {
	case len(text.text) > MaxTextBytes:
		f.failure = fmt.Sprintf("the file has more than %d bytes and is not checked", MaxTextBytes)
		return f
	case !isManifest.MatchString(text.text):
		return f
	}
	defer func() {
		if p := recover(); p != nil {
			f.failure = panicText(p)
		}
	}()
	f.parsed = workspace.NewFile(name, text.text)
	if len(f.parsed.Problems()) == 0 {
		f.good = f.parsed
	}
	return f
}

func panicText(p any) string {
	return "the check failed because of an error in Espalier: " + diag.Panic(p)
}

// Files that have failed are left out.
func (c *Checked) run() (failure string) {
	defer func() {
		if p := recover(); p != nil {
			failure = panicText(p)
		}
	}()
	var parsed, broken []*workspace.File
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		f := c.files[name]
		isGood := f.failure == "" && f.parsed != nil
		if isGood {
			parsed = append(parsed, f.parsed)
		}
		if f.good != nil && (!isGood || f.good != f.parsed) {
			broken = append(broken, f.good)
		}
	}
	o := c.options.Workspace
	o.Kinds = c.options.Kinds
	if len(broken) > 0 {
		before := c.options.check(broken, o)
		o.Kinds = before.Lookup
	}
	c.workspace = c.options.check(parsed, o)
	return ""
}

func (c *Checked) collect() {
	for name, f := range c.files {
		if f.failure != "" {
			c.found[name] = []Diagnostic{{Severity: Error, Message: f.failure}}
		}
	}
	for _, finding := range c.workspace.Findings() {
		d := Diagnostic{Severity: Error, Message: finding.Message}
		if finding.Severity == workspace.Warning {
			d.Severity = Warning
		}
		f := c.files[finding.File]
		if f == nil || len(c.found[finding.File]) >= maxDiagnostics {
			continue
		}
		if finding.Path != "" {
			d.Message = string(finding.Path) + ": " + d.Message
		}
		d.Range = f.text.rangeOf(finding.Range)
		c.found[finding.File] = append(c.found[finding.File], d)
	}
}

// Diagnostics returns the problems of a text, in the order of their places.
func (c *Checked) Diagnostics(name string) []Diagnostic { return c.found[name] }

func (c *Checked) lookUp(gvk schema.GroupVersionKind) (object.KindInfo, bool) {
	return c.workspace.Lookup(gvk)
}
