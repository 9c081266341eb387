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

// items is how the items of a collection come about.
type items struct {
	// dimensions are the iterators; the last turns fastest.
	dimensions []dimension
	// identity renders the name and the namespace of an item.
	identity *expr.Template
	// includeWhen are the conditions of single items: those that read an iterator.
	includeWhen []*expr.Program
}

// dimension is an iterator and the list that it goes through.
type dimension struct {
	iterator string
	list     *expr.Program
	// dependent says that the list reads iterators before it.
	dependent bool
}

// isIterator says whether a name is that of an iterator of the node's.
func (n *Node) isIterator(name string) bool {
	return n.items != nil && slices.ContainsFunc(n.items.dimensions, func(d dimension) bool { return d.iterator == name })
}

// compileForEach compiles what a collection goes through. Each list may read the
// iterators before it.
func (c *compilation) compileForEach(d *draft) {
	if !d.Collection || d.External {
		return
	}
	d.items = &items{}
	at := d.at.Field("forEach")
	if n := len(d.source.ForEach); n > MaxDimensions {
		c.problems.Addf(at, "has %d iterators, over the limit of %d (MaxDimensions)", n, MaxDimensions)
		return
	}
	for i, entry := range d.source.ForEach {
		if len(entry) != 1 {
			c.problems.Addf(at.Index(i), "has %d iterators; each entry names one, such as {zone: \"${schema.spec.zones}\"}", len(entry))
			continue
		}
		for name, source := range entry {
			c.compileDimension(d, name, source, at.Index(i))
		}
	}
}

func (c *compilation) compileDimension(d *draft, name, source string, at object.Path) {
	switch {
	case !nodeName.MatchString(name):
		c.problems.Addf(at, "the iterator %q is not in lowerCamelCase (a lower-case letter, then letters and digits)", name)
		return
	case slices.Contains(reserved, name):
		c.problems.Addf(at, "the iterator %q is a reserved keyword", name)
		return
	case c.draftOf(name) != nil:
		c.problems.Addf(at, "the iterator %q conflicts with resource ID %[1]q", name)
		return
	case d.isIterator(name):
		c.problems.Addf(at, "the iterator %q is there already", name)
		return
	}
	list, problems := d.env.Only(source, cel.ListType(cel.DynType), at.Field(name))
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
		d.items.dimensions = append(d.items.dimensions, next)
		d.refs = append(d.refs, list.Refs()...)
		declaration.Type = list.Item()
	}
	// Without a list, what reads the iterator is wrong only because of that.
	env, err := d.env.With(declaration)
	if err != nil {
		c.problems.Addf(at, "%v", err)
		return
	}
	d.env = env
}

// compileIdentity compiles what tells a collection's items apart. An iterator that
// isn't in it would make several items of one object.
func (c *compilation) compileIdentity(d *draft) {
	if d.items == nil {
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
		return // the document has the same problem
	}
	d.items.identity = template
	for i, entry := range d.source.ForEach {
		for _, name := range slices.Sorted(maps.Keys(entry)) {
			read := slices.ContainsFunc(template.Refs(), func(r expr.Ref) bool { return r.Root == name })
			if d.isIterator(name) && !read {
				c.problems.Add(diag.Diagnostic{
					Path:     d.at.Field("forEach").Index(i),
					Problem:  "the iterator " + name + " is not in metadata.name or metadata.namespace of the template",
					Expected: "names that tell the items apart",
				})
			}
		}
	}
}

// partConditions tells the conditions of single items from those of the whole.
func (c *compilation) partConditions(d *draft) {
	if d.items == nil {
		return
	}
	var whole []*expr.Program
	for _, p := range d.includeWhen {
		if slices.ContainsFunc(p.Refs(), func(r expr.Ref) bool { return d.isIterator(r.Root) }) {
			d.items.includeWhen = append(d.items.includeWhen, p)
		} else {
			whole = append(whole, p)
		}
	}
	d.includeWhen = whole
}
