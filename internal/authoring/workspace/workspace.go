package workspace

import (
	"cmp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag/source"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// File is a file of a workspace.
type File struct {
	// Name is shown with problems, and is unique in a workspace.
	Name      string
	documents []*Document
	problems  []source.Problem
}

// NewFile parses a file.
func NewFile(name, text string) *File {
	f := &File{Name: name}
	parsed, problems := source.Parse(text)
	f.problems = problems
	for _, whole := range parsed {
		items, problems := whole.Items()
		f.problems = append(f.problems, problems...)
		for _, d := range items {
			f.documents = append(f.documents, &Document{Document: d, File: f, Object: &unstructured.Unstructured{Object: d.Object}})
		}
	}
	return f
}

// Documents returns the documents that could be parsed.
func (f *File) Documents() []*Document { return f.documents }

// Problems returns why the file, or a part of it, cannot be parsed.
func (f *File) Problems() []source.Problem { return f.problems }

// Document is an object of a file.
type Document struct {
	*source.Document
	File   *File
	Object *unstructured.Unstructured
}

// Graph is a ResourceGraphDefinition that compiles.
type Graph struct {
	Definition *Document
	Spec       *v1alpha1.DefinitionSpec
	*graph.Graph
	// CRD is the CustomResourceDefinition of its kind.
	CRD *apiextensionsv1.CustomResourceDefinition
}

// Options are what a workspace has besides its files.
type Options struct {
	// Kinds looks up kinds that neither the files nor Kubernetes have; it is optional. The result is not changed.
	Kinds func(schema.GroupVersionKind) (object.KindInfo, bool)
	// SecretOutputs is what happens to definitions that put data of Secrets into outputs.
	SecretOutputs graph.SecretOutputs
	// Version is the program's version.
	Version string
}

// Workspace is a set of checked files. Its methods are not safe for concurrent use.
type Workspace struct {
	options Options
	files   []*File
	kinds   map[schema.GroupVersionKind]object.KindInfo
	crds    map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition
	// rules are the rules of crds, as far as they were needed.
	rules  map[schema.GroupVersionKind]*rules
	graphs []*Graph
	// standalone are the drawings of the Graphs that compile.
	standalone []Diagram
	findings   []Finding
}

// New checks files. Files with the same content give the same findings, in whatever order they are.
func New(files []*File, o Options) *Workspace {
	w := &Workspace{
		options: o, files: slices.SortedFunc(slices.Values(files), func(a, b *File) int { return cmp.Compare(a.Name, b.Name) }),
		kinds: map[schema.GroupVersionKind]object.KindInfo{},
		crds:  map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{},
		rules: map[schema.GroupVersionKind]*rules{},
	}
	for _, f := range w.files {
		for _, p := range f.problems {
			w.findings = append(w.findings, Finding{File: f.Name, Range: p.Range, Severity: Error, Message: p.Message})
		}
		for _, d := range f.documents {
			for _, p := range d.MisreadKeys() {
				w.findings = append(w.findings, Finding{File: f.Name, Range: p.Range, Severity: Warning, Message: p.Message})
			}
		}
	}
	w.files = w.corrected(w.files)
	w.addCRDs()
	w.addCompositeKinds()
	w.compileGraphs()
	w.compileStandalone()
	w.checkCompositions()
	w.checkObjects()
	slices.SortStableFunc(w.findings, compareFindings)
	w.findings = slices.Compact(w.findings)
	return w
}

// Findings returns the problems of all files, sorted by file and place.
func (w *Workspace) Findings() []Finding { return w.findings }

// Graphs returns the definitions that compile, sorted by file and place.
func (w *Workspace) Graphs() []*Graph { return w.graphs }

// Documents returns the documents of all files with one of the kinds; all without a kind.
func (w *Workspace) Documents(kinds ...schema.GroupKind) []*Document {
	var out []*Document
	for _, f := range w.files {
		for _, d := range f.documents {
			if len(kinds) == 0 || slices.Contains(kinds, d.Object.GroupVersionKind().GroupKind()) {
				out = append(out, d)
			}
		}
	}
	return out
}

// CRD returns the CustomResourceDefinition of a kind that the files have or define.
func (w *Workspace) CRD(kind schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool) {
	c, ok := w.crds[kind]
	return c, ok
}
