package workspace

import (
	"cmp"
	"fmt"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/diag/source"
	"github.com/espalier-dev/espalier/internal/object"
)

// Severity is how bad a finding is.
type Severity string

// Severities. An Error is what the cluster refuses, or what fails there; a Warning is what might not be as intended, or
// could not be checked.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one problem of a file.
type Finding struct {
	File     string
	Range    source.Range
	Severity Severity
	// Path is the field; empty for a problem of the file's syntax.
	Path object.Path
	// Message says what is wrong and what is expected, and Nearest is the known name that may have been meant.
	Message, Nearest string
}

// String renders the finding on one line, as compilers do:
//
//	network.yaml:12:18: error: spec.resources[1].template.spec.vpc: no such field "idd"; did you mean "id"?
func (f Finding) String() string {
	at := ""
	if f.Path != "" {
		at = string(f.Path) + ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s%s", f.File, f.Range.Start.Line, f.Range.Start.Column, f.Severity, at, f.Message)
}

func compareFindings(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(a.File, b.File), cmp.Compare(a.Range.Start.Line, b.Range.Start.Line), cmp.Compare(a.Range.Start.Column, b.Range.Start.Column),
		cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message),
	)
}

// Their paths are below prefix.
func (w *Workspace) add(d *Document, severity Severity, prefix object.Path, problems diag.List) {
	for _, p := range problems {
		f := Finding{File: d.File.Name, Severity: severity, Path: prefix.Join(p.Path), Nearest: p.Nearest}
		if p.Expr != "" {
			f.Range = d.RangeOf(f.Path, p.Expr, p.Offset, 1)
		} else {
			f.Range = d.Range(f.Path)
		}
		f.Message = p.Problem
		if p.Expected != "" {
			f.Message += "; expected " + p.Expected
		}
		if p.Nearest != "" {
			f.Message += fmt.Sprintf("; did you mean %q?", p.Nearest)
		}
		if len(f.Message) > maxMessage { // it repeats a value of the file
			f.Message = diag.TruncateMiddle(f.Message, maxMessage)
		}
		w.findings = append(w.findings, f)
	}
}

// maxMessage bounds the message of a finding, in bytes.
const maxMessage = 4 << 10

func (w *Workspace) addf(d *Document, severity Severity, path object.Path, format string, args ...any) {
	w.add(d, severity, "", diag.List{{Path: path, Problem: fmt.Sprintf(format, args...)}})
}
