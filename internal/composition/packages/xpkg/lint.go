package xpkg

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	metav1 "github.com/espalier-dev/espalier/api/pkg/meta/v1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Dependency is a package that another one needs.
type Dependency struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is the registry and the repository.
	Source string `json:"source"`
	// Version is a range, or a digest.
	Version string `json:"version"`
}

// lint splits the documents into metadata and objects, and checks both.
func (p *parser) lint() {
	var metas, objects []document
	for _, d := range p.documents {
		if d.object.GroupVersionKind().Group == metav1.Group {
			metas = append(metas, d)
		} else {
			objects = append(objects, d)
		}
	}
	switch len(metas) {
	case 0:
		p.problems = append(p.problems, Problem{File: "package", Line: 1, Message: fmt.Sprintf(
			"it has no metadata: an object of %s/v1 with the kind Configuration, Function or Provider, usually in crossplane.yaml", metav1.Group)})
	default:
		p.meta(metas[0])
		for _, d := range metas[1:] {
			p.problems = append(p.problems, d.problem(fmt.Sprintf("a package has one metadata object, and there is one in %s:%d already", metas[0].file, metas[0].line)))
		}
	}
	p.objects(objects)
}

func (p *parser) meta(d document) {
	p.pkg.meta = d.object
	raw, err := json.Marshal(d.object.Object)
	if err != nil { // decoded values can be encoded
		p.problems = append(p.problems, d.problem(err.Error()))
		return
	}
	unknown, err := kjson.UnmarshalStrict(raw, &p.pkg.Meta)
	if err != nil {
		p.problems = append(p.problems, d.problem(err.Error()))
		return
	}
	for _, field := range unknown {
		p.problems = append(p.problems, d.warning(field.Error()+": it has no effect"))
	}
	gvk := d.object.GroupVersionKind()
	if !slices.Contains([]string{metav1.ConfigurationKind, metav1.FunctionKind, metav1.ProviderKind}, gvk.Kind) {
		p.problems = append(p.problems, d.problem("the kind of a package is Configuration, Function or Provider"))
	} else if !slices.Contains(metaVersions, gvk.Version) {
		p.problems = append(p.problems, d.problem(fmt.Sprintf("there is no version %s of %s; use v1", gvk.Version, metav1.Group)))
	}
	if d.object.GetName() == "" {
		p.problems = append(p.problems, d.warning("it has no name"))
	}
	if mark, marked := d.object.GetAnnotations()[metav1.GraphsAnnotation]; marked && (mark != "true" || gvk.Kind != metav1.ConfigurationKind) {
		p.problems = append(p.problems, d.warning(fmt.Sprintf("the annotation %s has no effect: it needs the value \"true\" and a Configuration", metav1.GraphsAnnotation)))
	}
	if c := p.pkg.Meta.Spec.Crossplane; c != nil {
		if _, err := parseRange(c.Version); err != nil {
			p.problems = append(p.problems, d.problem("spec.crossplane: "+err.Error()))
		}
	}
	for i, written := range p.pkg.Meta.Spec.DependsOn {
		dependency, note, err := resolve(written)
		at := fmt.Sprintf("spec.dependsOn[%d]: ", i)
		if err != nil {
			p.problems = append(p.problems, d.problem(at+err.Error()))
			continue
		}
		if note != "" {
			p.problems = append(p.problems, d.warning(at+note))
		}
		p.pkg.Dependencies = append(p.pkg.Dependencies, dependency)
	}
}

// resolve returns the dependency, with a note on what is written in vain.
func resolve(written metav1.Dependency) (d Dependency, note string, err error) {
	d.Version = written.Version
	var text string
	var forms []string
	if written.APIVersion != nil || written.Kind != nil || written.Package != nil {
		if written.APIVersion == nil || written.Kind == nil || written.Package == nil {
			return d, "", fmt.Errorf("apiVersion, kind and package belong together")
		}
		d.APIVersion, d.Kind, text = *written.APIVersion, *written.Kind, *written.Package
		forms = append(forms, "package")
	}
	for _, short := range []struct {
		field, kind string
		value       *string
	}{
		{"provider", metav1.ProviderKind, written.Provider},
		{"configuration", metav1.ConfigurationKind, written.Configuration},
		{"function", metav1.FunctionKind, written.Function},
	} {
		if short.value == nil {
			continue
		}
		if forms = append(forms, short.field); len(forms) == 1 {
			d.APIVersion, d.Kind, text = "pkg.crossplane.io/v1", short.kind, *short.value
		}
	}
	switch {
	case len(forms) == 0:
		return d, "", fmt.Errorf("it names no package: use provider, configuration or function, or apiVersion, kind and package")
	case len(forms) > 1:
		note = fmt.Sprintf("only %s counts, not %s", forms[0], strings.Join(forms[1:], " and "))
	}
	r, err := ParseReference(text)
	if err != nil {
		return d, "", err
	}
	if r.Version() != "" {
		note = fmt.Sprintf("the %s of the reference does not count: version does", r.Version())
	}
	d.Source = r.Source
	return d, note, CheckVersion(d.Version)
}

func (p *parser) objects(all []document) {
	type key struct {
		kind schema.GroupKind
		name string
	}
	seen := map[key]document{}
	packageType := p.pkg.Meta.Kind
	for _, d := range all {
		gvk := d.object.GroupVersionKind()
		switch {
		case gvk.Kind == "" || gvk.Version == "":
			p.problems = append(p.problems, Problem{File: d.file, Line: d.line, Message: "it has no apiVersion or no kind"})
			continue
		case d.object.GetName() == "":
			p.problems = append(p.problems, d.problem("it has no name"))
			continue
		}
		k := key{gvk.GroupKind(), d.object.GetName()}
		if before, twice := seen[k]; twice {
			p.problems = append(p.problems, d.warning(fmt.Sprintf("it is already in %s:%d", before.file, before.line)))
		}
		seen[k] = d
		if packageType != "" {
			if message, warning := kindProblem(gvk, packageType, p.pkg.withGraphs()); message != "" {
				found := d.problem(message)
				found.Warning = warning
				p.problems = append(p.problems, found)
			}
		}
		p.pkg.Objects = append(p.pkg.Objects, d.object)
	}
}

// Errors joins the problems that are not warnings; nil if there are none. strict counts warnings, too.
func Errors(problems []Problem, strict bool) error {
	var lines []string
	for _, p := range problems {
		if strict || !p.Warning {
			lines = append(lines, p.String())
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%s:\n  %s", diag.Counted(len(lines), "problem of the package", "problems of the package"), strings.Join(lines, "\n  "))
}
