package graph

import (
	"maps"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/conversion"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

// Limits on further versions, each named in the diagnostic that enforces it.
const (
	// MaxVersions bounds the further versions of one kind.
	MaxVersions = 16
	// MaxConversions bounds the conversion rules of all versions together, in bytes: they
	// are stored in an annotation of the CustomResourceDefinition, where the conversion
	// webhook reads them.
	MaxConversions = 64 << 10
	// maxWarningLength is the API server's own limit, in bytes.
	maxWarningLength = 256
)

// Version is a version of the instances' kind besides the graph's own.
type Version struct {
	Name               string
	Served, Deprecated bool
	// Warning is the deprecation warning; empty for the API server's default.
	Warning string
	Spec    *apiextensionsv1.JSONSchemaProps
	// Columns are the author's printer columns; nil for those of the schema.
	Columns []apiextensionsv1.CustomResourceColumnDefinition
	// Rules convert objects to the graph's own version and back. Identical says that both versions have the same
	// fields, so nothing needs conversion.
	Rules     conversion.Rules
	Identical bool
}

func compileVersions(c *compilation) {
	s := c.spec.Schema
	if c.graph.embedded != nil || len(s.Versions) == 0 {
		return
	}
	const at = object.Path("spec.schema.versions")
	if len(s.Versions) > MaxVersions {
		c.problems.Addf(at, "has %d versions, over the limit of %d (MaxVersions)", len(s.Versions), MaxVersions)
		return
	}
	seen := map[string]string{s.APIVersion: "spec.schema.apiVersion"}
	size := 0
	for i := range s.Versions {
		v, here := &s.Versions[i], at.Index(i)
		first, twice := seen[v.Name]
		switch {
		case !versionName.MatchString(v.Name):
			c.problems.Add(diag.Diagnostic{Path: here.Field("name"), Problem: "is not a version", Expected: "v1, v1alpha1, v2beta3 and the like"})
		case twice:
			c.problems.Addf(here.Field("name"), "version %q is already defined in %s", v.Name, first)
		default:
			seen[v.Name] = string(here)
		}
		c.checkWarning(v, here)
		if v.Conversion != nil {
			size += len(rawFields(v.Conversion.To).Raw) + len(rawFields(v.Conversion.From).Raw)
		}
		c.compileVersion(v, here)
	}
	if size > MaxConversions {
		c.problems.Addf(at, "have %d bytes of conversion rules, over the limit of %d (MaxConversions)", size, MaxConversions)
	}
}

// checkWarning applies the API server's own rules.
func (c *compilation) checkWarning(v *v1alpha1.Version, at object.Path) {
	at = at.Field("deprecationWarning")
	switch {
	case v.DeprecationWarning == "":
	case !v.Deprecated:
		c.problems.Add(diag.Diagnostic{Path: at, Problem: "requires a deprecated version", Expected: "deprecated: true"})
	case len(v.DeprecationWarning) > maxWarningLength:
		c.problems.Addf(at, "has %d bytes; the API server sends at most %d", len(v.DeprecationWarning), maxWarningLength)
	case strings.ContainsFunc(v.DeprecationWarning, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.problems.Addf(at, "must be one line of printable characters")
	}
}

func (c *compilation) compileVersion(v *v1alpha1.Version, at object.Path) {
	rules, readable := c.rulesOf(v.Conversion, at.Field("conversion"))
	fields, hasOwn, ok := c.versionSpec(v, at)
	if !ok || !readable || c.instanceSpec == nil {
		return
	}
	out := Version{
		Name: v.Name, Served: v.IsServed(), Deprecated: v.Deprecated, Warning: v.DeprecationWarning,
		Spec: fields, Columns: v.AdditionalPrinterColumns, Rules: rules,
	}
	places := conversion.Places{Hub: "spec.schema.spec", Spoke: "spec.schema.spec", Rules: at.Field("conversion")}
	if hasOwn {
		places.Spoke = at.Field("spec")
	}
	hub := conversion.Version{Name: c.spec.Schema.APIVersion, Spec: c.instanceSpec}
	pair, problems := conversion.Compile(hub, conversion.Version{Name: v.Name, Spec: fields}, rules, places)
	c.problems.Add(problems...)
	if pair == nil {
		return
	}
	out.Identical = pair.IsIdentity()
	c.graph.Versions = append(c.graph.Versions, out)
}

// versionSpec returns the schema of a version's spec: its own, or else the graph's.
func (c *compilation) versionSpec(v *v1alpha1.Version, at object.Path) (s *apiextensionsv1.JSONSchemaProps, hasOwn, ok bool) {
	types, ok := c.decode(c.spec.Schema.Types, "spec.schema.types")
	if !ok {
		return nil, false, false // reported already
	}
	more, ok := c.decode(v.Types, at.Field("types"))
	if !ok {
		return nil, false, false
	}
	if isEmpty(v.Spec) {
		if len(more) > 0 {
			c.problems.Addf(at.Field("types"), "require spec: without it the version has the spec of the schema")
		}
		if field := c.scaled[c.spec.Schema.APIVersion]; field != "" {
			c.scaled[v.Name] = field
		}
		return c.instanceSpec, false, true
	}
	fields, ok := c.decode(v.Spec, at.Field("spec"))
	if !ok {
		return nil, false, false
	}
	maps.Copy(types, more)
	parsed, problems := specschema.Parse(fields, at.Field("spec"), specschema.Options{
		Types: types, TypesPath: at.Field("types"), Ignored: &c.graph.Warnings, Scaled: c.addScaled(v.Name, at.Field("spec")),
	})
	for _, problem := range problems {
		// Problems of the schema's types are reported there.
		name, inTypes := strings.CutPrefix(string(problem.Path), string(at.Field("types"))+".")
		name, _, _ = strings.Cut(name, ".")
		if _, mine := more[name]; !inTypes || mine {
			c.problems.Add(problem)
		}
	}
	return parsed, true, len(problems) == 0
}

func (c *compilation) rulesOf(source *v1alpha1.Conversion, at object.Path) (rules conversion.Rules, ok bool) {
	if source == nil {
		return rules, true
	}
	var okTo, okFrom bool
	rules.To, okTo = c.decode(rawFields(source.To), at.Field("to", "spec"))
	rules.From, okFrom = c.decode(rawFields(source.From), at.Field("from", "spec"))
	rules.Keep, rules.Drop = source.Keep, source.Drop
	for _, path := range source.Keep {
		for _, other := range source.Drop {
			if path == other {
				c.problems.Addf(at.Field("drop"), "%s is also in keep", path)
			}
		}
	}
	return rules, okTo && okFrom
}

func rawFields(f *v1alpha1.ConvertedFields) runtime.RawExtension {
	if f == nil {
		return runtime.RawExtension{}
	}
	return f.Spec
}
