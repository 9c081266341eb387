package graph

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/object"
)

// Limits on collections, each named where it is enforced.
const (
	// MaxDimensions bounds the iterators of one collection.
	MaxDimensions = 10
	// MaxItems bounds the items of one collection.
	MaxItems = 1000
)

type forEach struct {
	// dimensions are the iterators; the last varies fastest.
	dimensions []dimension
	identity   *expr.Template
	// includeWhen are the conditions that read an iterator: they decide about single items.
	includeWhen []*expr.Program
}

type dimension struct {
	iterator  string
	list      *expr.Program
	dependent bool
}

func (n *Node) isIterator(name string) bool {
	return n.forEach != nil && slices.ContainsFunc(n.forEach.dimensions, func(d dimension) bool { return d.iterator == name })
}

// compileForEach compiles the lists of a collection's iterators. Each list may read the
// iterators before it.
func (c *compilation) compileForEach(d *draft) {
	if !d.Collection || d.isSelection() {
		return
	}
	d.forEach = &forEach{}
	at := d.at.Field("forEach")
	if n := len(d.source.ForEach); n > MaxDimensions {
		c.problems.Addf(at, "has %d iterators, over the limit of %d (MaxDimensions)", n, MaxDimensions)
		return
	}
	for i, entry := range d.source.ForEach {
		d.dimensionEnvs = append(d.dimensionEnvs, d.env)
		if len(entry) != 1 {
			c.problems.Addf(at.Index(i), "has %d iterators; each entry names one, such as {zone: \"${schema.spec.zones}\"}", len(entry))
			continue
		}
		for name, source := range entry {
			c.compileDimension(d, name, source, at.Index(i))
		}
	}
}

// conflicts says whether a node of the same graph has the name.
func (d *draft) conflicts(c *compilation, name string) bool {
	if d.frame != nil {
		return slices.Contains(d.frame.nodes, name) || d.frame.graphs[name] != nil
	}
	return c.draftByID(name) != nil
}

func (c *compilation) compileDimension(d *draft, name, source string, at object.Path) {
	switch {
	case !c.words.name.MatchString(name):
		c.problems.Addf(at, "the iterator %q is not %s", name, c.words.nameForm)
		return
	case slices.Contains(c.words.reserved, name):
		c.problems.Addf(at, "the iterator %q is a reserved keyword", name)
		return
	case d.conflicts(c, name):
		c.problems.Addf(at, "the iterator %q conflicts with resource ID %[1]q", name)
		return
	case d.isIterator(name):
		c.problems.Addf(at, "the iterator %q is declared twice", name)
		return
	}
	list, problems := d.env.CompileStandalone(source, cel.ListType(cel.DynType), at.Field(name))
	if list == nil {
		for i := range problems {
			problems[i].Problem = strings.Replace(problems[i].Problem, "the expression is", "it must return a list, and is", 1)
		}
	}
	c.problems.Add(problems...)
	declaration := expr.Declaration{Name: name}
	if list != nil {
		next := dimension{iterator: name, list: list}
		for _, r := range list.Refs() {
			next.dependent = next.dependent || d.isIterator(r.Root)
		}
		d.forEach.dimensions = append(d.forEach.dimensions, next)
		d.refs = append(d.refs, list.Refs()...)
		declaration.Type = list.ItemType()
	}
	// Without a list the iterator is untyped, so its readers report no further problem.
	env, err := d.env.With(declaration)
	if err != nil {
		c.problems.Addf(at, "%v", err)
		return
	}
	d.env = env
}

// compileIdentity compiles the name and the namespace of a collection's items, which
// identify them. Every iterator must be read there: otherwise several items would be the
// same object.
func (c *compilation) compileIdentity(d *draft) {
	if d.forEach == nil {
		return
	}
	metadata, _ := d.document["metadata"].(map[string]any)
	identity := map[string]any{}
	for _, field := range []string{"name", "namespace"} {
		if value, ok := metadata[field]; ok {
			identity[field] = value
		}
	}
	template, _ := d.env.Template(identity, nil, d.documentPath().Field("metadata"))
	if template == nil {
		return // reported with the document
	}
	d.forEach.identity = template
	for i, entry := range d.source.ForEach {
		for _, name := range slices.Sorted(maps.Keys(entry)) {
			read := slices.ContainsFunc(template.Refs(), func(r expr.Ref) bool { return r.Root == name })
			if d.isIterator(name) && !read {
				c.problems.Add(diag.Diagnostic{
					Path:     d.at.Field("forEach").Index(i),
					Problem:  "the iterator " + name + " is not in metadata.name or metadata.namespace of the " + d.documentName(),
					Expected: "a different name for each item",
				})
			}
		}
	}
}

// splitIncludeWhen separates the conditions of single items, which read an iterator, from the conditions of the whole
// collection.
func (c *compilation) splitIncludeWhen(d *draft) {
	if d.forEach == nil {
		return
	}
	var collectionWide []*expr.Program
	for _, p := range d.includeWhen {
		if slices.ContainsFunc(p.Refs(), func(r expr.Ref) bool { return d.isIterator(r.Root) }) {
			d.forEach.includeWhen = append(d.forEach.includeWhen, p)
		} else {
			collectionWide = append(collectionWide, p)
		}
	}
	d.includeWhen = collectionWide
}
