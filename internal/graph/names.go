package graph

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

var (
	kindName    = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]{0,62}$`)
	versionName = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
)

// celWords are reserved in CEL.
var celWords = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
	"let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
}

// reserved are the names that ids and iterators of a definition cannot have.
var reserved = append([]string{
	"apiVersion", "context", "dependencies", "dependency", "each", "externalRef", "externalReference",
	"externalReferences", "externalRefs", "graph", "instance", "item", "items", "kind",
	"kro", "metadata", "object", "resource", "resourceGraphDefinition", "resourcegraphdefinition",
	"resources", "root", "runtime", "schema", "self", "serviceAccountName", "spec", "status", "this",
	"variables", "vars", "version",
}, celWords...)

// ReservedIDs lists the names that no node and no iterator can have, sorted.
func ReservedIDs() []string { return slices.Sorted(slices.Values(reserved)) }

// checkNames checks the names of the kind and of the nodes, and creates the draft of each
// node.
func checkNames(c *compilation) {
	s := c.spec.Schema
	c.graph.Kind = s.InstanceKind()
	c.graph.Namespaced = s.Scope != v1alpha1.ClusterScope
	if !kindName.MatchString(s.Kind) {
		c.problems.Add(diag.Diagnostic{Path: "spec.schema.kind", Problem: "naming convention violation: it is not a kind's name",
			Expected: "UpperCamelCase of at most 63 letters and digits"})
	}
	if !versionName.MatchString(s.APIVersion) {
		c.problems.Add(diag.Diagnostic{Path: "spec.schema.apiVersion", Problem: "is not a version", Expected: "v1, v1alpha1, v2beta3 and the like"})
	}
	if s.Plural != "" && len(validation.IsDNS1035Label(s.Plural)) > 0 {
		c.problems.Add(diag.Diagnostic{Path: "spec.schema.plural", Problem: "is not the plural of a kind",
			Expected: "lower-case letters, digits and -, beginning with a letter, at most 63"})
	}
	if len(validation.IsDNS1123Subdomain(c.graph.Kind.Group)) > 0 {
		c.problems.Add(diag.Diagnostic{Path: "spec.schema.group", Problem: "is not an API group",
			Expected: "lower-case letters, digits, - and . as in a domain name, such as platform.example.com"})
	} else if problem := object.GroupProblem(c.graph.Kind.Group); problem != "" && c.graph.embedded == nil {
		c.problems.Addf("spec.schema.group", "%s", problem)
	}
	if s.Metadata != nil {
		for _, key := range slices.Sorted(maps.Keys(s.Metadata.Annotations)) {
			if problem := object.KindAnnotationProblem(key); problem != "" {
				c.problems.Addf(object.Path("spec.schema.metadata.annotations").Field(key), "%s", problem)
			}
		}
	}
	if len(c.spec.Resources) > MaxResources {
		c.problems.Addf(c.words.nodes, "has %d %s, over the limit of %d (MaxResources)", len(c.spec.Resources), strings.TrimPrefix(string(c.words.nodes), "spec."), MaxResources)
		return
	}
	seen := map[string]object.Path{}
	for i, r := range c.spec.Resources {
		p := c.placeOf(i)
		if r == nil {
			c.problems.Addf(p.at, "is null")
			continue
		}
		d := &draft{Node: &Node{ID: r.ID, Index: i, at: p.at, kindFrom: p.kindFrom}, source: r, at: p.at, name: cmp.Or(p.name, r.ID), frame: p.frame, patch: p.patch, kindOf: p.kindOf, words: c.words}
		c.drafts = append(c.drafts, d)
		c.checkID(d, seen)
	}
}

func (c *compilation) placeOf(i int) place {
	if s := c.graph.standalone; s != nil && i < len(s.places) {
		return s.places[i]
	}
	return place{at: c.words.nodes.Index(i)}
}

func (c *compilation) checkID(d *draft, seen map[string]object.Path) {
	at := d.at.Field("id")
	first, twice := seen[d.ID]
	switch {
	case d.name == "":
		c.breakf(d, at, "is required")
	case !c.words.name.MatchString(d.name):
		c.breakf(d, at, "naming convention violation: id %q is not %s", d.name, c.words.nameForm)
	case len(d.name) > MaxIDLength:
		c.breakf(d, at, "id has %d characters, over the limit of %d (MaxIDLength)", len(d.name), MaxIDLength)
	case slices.Contains(c.words.reserved, d.name):
		c.breakf(d, at, "naming convention violation: id %q is a reserved keyword", d.name)
	case twice:
		c.breakf(d, at, "found duplicate resource IDs: %q is also the ID of %s", d.name, first)
	default:
		seen[d.ID] = d.at
	}
}
