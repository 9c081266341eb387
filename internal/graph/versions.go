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
	// MaxConversions bounds, in bytes, what all of them say of conversion: it is noted on
	// the CustomResourceDefinition, where those who convert read it.
	MaxConversions = 64 << 10
	// longestWarning is what the API server sends as a warning.
	longestWarning = 256
)

// Version is a further version of the instances' kind.
type Version struct {
	Name               string
	Served, Deprecated bool
	// Warning is what users of a deprecated version are told; empty for the API server's
	// own words.
	Warning string
	Spec    *apiextensionsv1.JSONSchemaProps
	// Columns are the author's; nil for those of the schema.
	Columns []apiextensionsv1.CustomResourceColumnDefinition
	// Rules say how objects become those of the graph's own version, and back; Same says
	// that there is nothing to convert.
	Rules conversion.Rules
	Same  bool
}

// compileVersions reads the further versions of the kind and types their conversions.
func compileVersions(c *compilation) {
	s := c.spec.Schema
	if c.graph.guest != nil || len(s.Versions) == 0 {
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
			c.problems.Addf(here.Field("name"), "version %q is already that of %s", v.Name, first)
		default:
			seen[v.Name] = string(here)
		}
		c.checkWarning(v, here)
		if v.Conversion != nil {
			size += len(fieldsOf(v.Conversion.To).Raw) + len(fieldsOf(v.Conversion.From).Raw)
		}
		c.compileVersion(v, here)
	}
	if size > MaxConversions {
		c.problems.Addf(at, "say %d bytes of conversion, over the limit of %d (MaxConversions)", size, MaxConversions)
	}
}

// checkWarning holds a deprecation warning to what the API server accepts.
func (c *compilation) checkWarning(v *v1alpha1.Version, at object.Path) {
	at = at.Field("deprecationWarning")
	switch {
	case v.DeprecationWarning == "":
	case !v.Deprecated:
		c.problems.Add(diag.Diagnostic{Path: at, Problem: "is only told of a version that is deprecated", Expected: "deprecated: true beside it"})
	case len(v.DeprecationWarning) > longestWarning:
		c.problems.Addf(at, "has %d bytes; the API server sends at most %d", len(v.DeprecationWarning), longestWarning)
	case strings.ContainsFunc(v.DeprecationWarning, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.problems.Addf(at, "has characters that can't be printed, such as a newline; the API server sends one line")
	}
}

func (c *compilation) compileVersion(v *v1alpha1.Version, at object.Path) {
	rules, readable := c.rulesOf(v.Conversion, at.Field("conversion"))
	fields, own, ok := c.versionSpec(v, at)
	if !ok || !readable || c.graph.Spec == nil {
		return
	}
	out := Version{
		Name: v.Name, Served: v.IsServed(), Deprecated: v.Deprecated, Warning: v.DeprecationWarning,
		Spec: fields, Columns: v.AdditionalPrinterColumns, Rules: rules,
	}
	places := conversion.Places{Hub: "spec.schema.spec", Spoke: "spec.schema.spec", Rules: at.Field("conversion")}
	if own {
		places.Spoke = at.Field("spec")
	}
	hub := conversion.Version{Name: c.spec.Schema.APIVersion, Spec: c.graph.Spec}
	pair, problems := conversion.Compile(hub, conversion.Version{Name: v.Name, Spec: fields}, rules, places)
	c.problems.Add(problems...)
	if pair == nil {
		return
	}
	out.Same = pair.Same()
	c.graph.Versions = append(c.graph.Versions, out)
}

// versionSpec is the schema of a version's spec: its own, or else the graph's.
func (c *compilation) versionSpec(v *v1alpha1.Version, at object.Path) (s *apiextensionsv1.JSONSchemaProps, own, ok bool) {
	types, ok := c.decode(c.spec.Schema.Types, "spec.schema.types")
	if !ok {
		return nil, false, false // it is told already
	}
	more, ok := c.decode(v.Types, at.Field("types"))
	if !ok {
		return nil, false, false
	}
	if empty(v.Spec) {
		if len(more) > 0 {
			c.problems.Addf(at.Field("types"), "are of no use without spec, which is that of the schema then")
		}
		return c.graph.Spec, false, true
	}
	fields, ok := c.decode(v.Spec, at.Field("spec"))
	if !ok {
		return nil, false, false
	}
	maps.Copy(types, more)
	parsed, problems := specschema.Parse(fields, at.Field("spec"), specschema.Options{Types: types, TypesPath: at.Field("types")})
	for _, problem := range problems {
		// What is wrong with the schema's types is told there.
		name, inTypes := strings.CutPrefix(string(problem.Path), string(at.Field("types"))+".")
		name, _, _ = strings.Cut(name, ".")
		if _, mine := more[name]; !inTypes || mine {
			c.problems.Add(problem)
		}
	}
	return parsed, true, len(problems) == 0
}

// rulesOf reads what is said of conversion.
func (c *compilation) rulesOf(said *v1alpha1.Conversion, at object.Path) (rules conversion.Rules, ok bool) {
	if said == nil {
		return rules, true
	}
	var okTo, okFrom bool
	rules.To, okTo = c.decode(fieldsOf(said.To), at.Field("to", "spec"))
	rules.From, okFrom = c.decode(fieldsOf(said.From), at.Field("from", "spec"))
	rules.Keep, rules.Drop = said.Keep, said.Drop
	for _, path := range said.Keep {
		for _, other := range said.Drop {
			if path == other {
				c.problems.Addf(at.Field("drop"), "%s is in keep as well", path)
			}
		}
	}
	return rules, okTo && okFrom
}

func fieldsOf(f *v1alpha1.ConvertedFields) runtime.RawExtension {
	if f == nil {
		return runtime.RawExtension{}
	}
	return f.Spec
}
