package graph

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/kube/crd"

	"github.com/google/cel-go/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

const instanceVariable = "schema"

// instanceHints are said about fields that expressions cannot read of the instance.
var instanceHints = map[string]string{"status": "expressions compute the status and cannot read it"}

// declareNames creates the environment of the expressions: the instance and every node
// are variables.
func declareNames(c *compilation) {
	var declarations []expr.Declaration
	if c.graph.standalone == nil {
		declarations = append(declarations, expr.Declaration{Name: instanceVariable, Schema: c.instanceSchema(), Hidden: inventory.IsReserved, MissingFieldHints: instanceHints})
	}
	for _, d := range c.drafts {
		if d.Variable || !c.declarable(d) {
			continue
		}
		declarations = append(declarations, expr.Declaration{Name: d.ID, Schema: d.objectSchema(), List: d.Collection, Hidden: inventory.IsReserved})
	}
	env, err := expr.NewEnv(declarations, expr.Limits{NoTime: c.graph.embedded != nil})
	if err != nil {
		c.problems.Addf("spec", "the kinds of this definition cannot be declared in CEL: %v", err)
		return
	}
	c.env, c.graph.scope = env, env.Scope
}

// envOf is the environment of a node's expressions, before they have iterators.
func (c *compilation) envOf(d *draft) *expr.Env {
	if d.frame == nil || d.frame.outer == nil && len(d.frame.graphs) == 0 {
		return c.env
	}
	return c.env.Within(d.frame.names())
}

// resolve returns the id of the node that has a name for this one.
func (d *draft) resolve(name string) string {
	if d.frame == nil {
		return name
	}
	return d.frame.resolve(name)
}

func (c *compilation) declarable(d *draft) bool {
	isInstance := d.ID == instanceVariable && c.graph.standalone == nil
	return c.words.name.MatchString(d.name) && !isInstance && !d.isDuplicate(c.drafts)
}

func (d *draft) isDuplicate(all []*draft) bool {
	for _, other := range all {
		if other == d {
			return false
		}
		if other.ID == d.ID {
			return true
		}
	}
	return false
}

// objectSchema is the schema of what expressions may read of the node; nil for anything.
func (d *draft) objectSchema() *spec.Schema {
	if d.broken {
		return nil
	}
	return d.typed
}

// instanceSchema is the schema of what expressions may read of the instance: everything
// but its status, which they compute.
func (c *compilation) instanceSchema() *spec.Schema {
	if c.graph.embedded != nil {
		root := c.graph.embedded.instanceSchema()
		if root == nil {
			return nil
		}
		return specschema.WithObjectMeta(root)
	}
	if c.instanceSpec == nil {
		return nil
	}
	fields := crd.OpenAPI(c.instanceSpec)
	if len(fields.Properties) == 0 && fields.AdditionalProperties == nil && c.instanceSpec.XPreserveUnknownFields == nil {
		fields.AdditionalProperties = &spec.SchemaOrBool{} // the API server prunes all fields
	}
	root := &spec.Schema{SchemaProps: spec.SchemaProps{
		Type:       spec.StringOrArray{"object"},
		Properties: map[string]spec.Schema{"spec": *fields},
	}}
	return specschema.WithObjectMeta(root)
}

func compileNodes(c *compilation) {
	if c.env == nil {
		return
	}
	for _, d := range c.drafts {
		if d.broken {
			continue
		}
		if !d.Variable { // variables are compiled already, for their types
			d.env = c.envOf(d)
			c.compileForEach(d)
		}
		if d.kindFrom != "" {
			d.refs = append(d.refs, expr.Ref{Root: d.kindFrom})
		}
		if !d.Variable {
			c.compileDocument(d)
		}
		d.includeWhen = c.compileBooleans(d.env, d, "includeWhen", d.source.IncludeWhen)
		for _, p := range d.includeWhen {
			d.refs = append(d.refs, p.Refs()...)
		}
		c.splitIncludeWhen(d)
		c.compileReadyWhen(d)
		c.compilePropagateWhen(d)
		for _, r := range d.refs {
			if r.Root == d.ID && d.Variable {
				c.problems.Addf(d.at, "%s reads itself through %s", d.ID, r)
			} else if r.Root == d.ID {
				c.problems.Addf(d.documentPath(), "%s reads its own object through %s; only readyWhen may", d.ID, r)
			}
		}
	}
	for _, d := range c.drafts {
		if !d.broken {
			c.compileWaitFor(d)
			c.checkPatchesUnread(d)
		}
	}
}

func (c *compilation) compileDocument(d *draft) {
	typed := d.objectSchema()
	switch {
	case d.isSelection():
		typed = selectorReferenceSchema
	case d.External && !d.Patch:
		typed = nil // a reference has a name only, not the fields of its kind
	}
	template, problems := d.env.Template(d.document, typed, d.documentPath())
	if d.isSelection() {
		problems = selectorProblems(problems, d.document, d.documentPath().Field("metadata", "selector"))
	}
	c.problems.Add(problems...)
	if template == nil {
		return
	}
	d.template = template
	d.refs = append(d.refs, template.Refs()...)
	c.checkIdentity(d)
	c.compileIdentity(d)
}

// compileBooleans compiles conditions: each must be the only expression of its string and
// give a boolean.
func (c *compilation) compileBooleans(env *expr.Env, d *draft, field string, sources []string) []*expr.Program {
	var out []*expr.Program
	for i, source := range sources {
		if program := c.compileBoolean(env, source, d.at.Field(field).Index(i)); program != nil {
			out = append(out, program)
		}
	}
	return out
}

func (c *compilation) compileBoolean(env *expr.Env, source string, at object.Path) *expr.Program {
	program, problems := env.CompileStandalone(source, cel.BoolType, at)
	c.problems.Add(problems...)
	return program
}

// compileReadyWhen compiles the conditions on a node's own object, or on each item's
// of a collection.
func (c *compilation) compileReadyWhen(d *draft) {
	env := c.envOf(d)
	if d.Collection && len(d.source.ReadyWhen) > 0 {
		with, err := env.With(d.itemDeclaration())
		if err != nil {
			c.problems.Addf(d.at.Field("readyWhen"), "%v", err)
			return
		}
		env = with
	}
	d.readyWhen = c.compileBooleans(env, d, "readyWhen", d.source.ReadyWhen)
	for _, p := range d.readyWhen {
		for _, r := range p.Refs() {
			if r.Root != d.readyWhenVariable() {
				c.problems.Addf(p.At(), "reads %s; readyWhen may read the node's own object only, as %s", r, d.readyWhenVariable())
			}
		}
	}
}

const eachVariable = "each"

// itemDeclaration declares the item of a collection that readyWhen reads.
func (d *draft) itemDeclaration() expr.Declaration {
	if d.Variable {
		return expr.Declaration{Name: eachVariable, Value: d.template}
	}
	return expr.Declaration{Name: eachVariable, Schema: d.objectSchema(), Hidden: inventory.IsReserved}
}

func (n *Node) readyWhenVariable() string {
	if n.Collection {
		return eachVariable
	}
	return n.ID
}

func (c *compilation) compileWaitFor(d *draft) {
	for _, name := range slices.Sorted(maps.Keys(d.source.WaitFor)) {
		wait := d.source.WaitFor[name]
		at, id := d.at.Field("waitFor", name), d.resolve(name)
		other := c.draftByID(id)
		switch {
		case other == nil:
			c.problems.Add(diag.Diagnostic{Path: at, Problem: "no resource has this id", Nearest: diag.Nearest(name, c.nodeIDs())})
			continue
		case id == d.ID:
			c.problems.Addf(at, "a resource cannot wait for itself")
			continue
		case len(wait.Fields) == 0:
			c.problems.Addf(at.Field("fields"), "is empty: name at least one field to wait for")
		}
		if wait.Timeout != nil && wait.Timeout.Duration <= 0 {
			c.problems.Addf(at.Field("timeout"), "must be positive")
		}
		for i, field := range wait.Fields {
			c.compileWaitField(d, name, wait, field, at.Field("fields").Index(i))
		}
	}
}

func (c *compilation) compileWaitField(d *draft, name string, wait v1alpha1.WaitFor, field v1alpha1.WaitField, at object.Path) {
	compiled := waitFor{}
	// A path is an expression that consists of field accesses; it is compiled as one.
	program, problems := c.envOf(d).Compile(name+"."+strings.TrimPrefix(field.Path, "."), at)
	c.problems.Add(problems...)
	if program == nil {
		return
	}
	ref, ok := program.Path()
	if !ok {
		c.problems.Add(diag.Diagnostic{Path: at, Expr: field.Path, Problem: "is not a path to a field", Expected: "such as status.vpcID or status.subnets[0].id"})
		return
	}
	compiled.ref, compiled.value = ref, program
	if field.Pattern != "" {
		pattern, err := regexp.Compile(field.Pattern)
		if err != nil {
			c.problems.Addf(at.Field("pattern"), "is not a regular expression: %v", err)
			return
		}
		compiled.pattern = pattern
	}
	if field.Rule != "" {
		compiled.rule = c.compileRule(field.Rule, at.Field("rule"))
	}
	if wait.Timeout != nil {
		compiled.timeout = wait.Timeout.Duration
	}
	if wait.Retries != nil {
		compiled.retries = int(*wait.Retries)
	}
	d.waitFor = append(d.waitFor, compiled)
	d.refs = append(d.refs, ref)
}

// compileRule compiles a check of a field's value, which it reads as self.
func (c *compilation) compileRule(rule string, at object.Path) *expr.Program {
	env, err := c.env.With(expr.Declaration{Name: "self"})
	if err != nil {
		c.problems.Addf(at, "%v", err)
		return nil
	}
	// Delimiters are optional: a rule is always an expression.
	if !strings.HasPrefix(rule, "${") {
		rule = "${" + rule + "}"
	}
	program, problems := env.CompileStandalone(rule, cel.BoolType, at)
	c.problems.Add(problems...)
	if program == nil {
		return nil
	}
	for _, r := range program.Refs() {
		if r.Root != "self" {
			c.problems.Addf(at, "reads %s; a rule may read the field's value only, as self", r)
		}
	}
	return program
}

func (c *compilation) draftByID(id string) *draft {
	for _, d := range c.drafts {
		if d.ID == id {
			return d
		}
	}
	return nil
}

func (c *compilation) nodeIDs() []string {
	ids := make([]string, len(c.drafts))
	for i, d := range c.drafts {
		ids[i] = d.ID
	}
	return ids
}
