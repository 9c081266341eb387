package graph

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

// SecretOutputs is what happens to a definition that puts data of Secrets where more users can
// read it than may read Secrets: into statuses, conditions, names and labels.
type SecretOutputs string

const (
	// RefuseSecretOutputs refuses such a definition. It is the default.
	RefuseSecretOutputs SecretOutputs = "Refuse"
	// WarnOfSecretOutputs accepts it; the graph lists what it puts where.
	WarnOfSecretOutputs SecretOutputs = "Warn"
)

// ParseSecretOutputs returns the rule of a name. The error names the flag --secret-outputs.
func ParseSecretOutputs(name string) (SecretOutputs, error) {
	if rule := SecretOutputs(name); rule == RefuseSecretOutputs || rule == WarnOfSecretOutputs {
		return rule, nil
	}
	return "", fmt.Errorf("--secret-outputs must be %s or %s, not %q", RefuseSecretOutputs, WarnOfSecretOutputs, name)
}

// MaxAllowedSecretOutputs bounds the fields that a definition allows data of Secrets in.
const MaxAllowedSecretOutputs = 64

type secretOutput struct {
	// path is the output as authors allow it, such as status.password or
	// resources.web.metadata.labels.
	path object.Path
	diag.Diagnostic
}

// checkSecretOutputs reports expressions that put data of Secrets into outputs, unless the
// definition allows that for the output.
func checkSecretOutputs(c *compilation) {
	outputs := c.secretOutputs()
	allowed, used := c.allowedSecretOutputs()
	var found diag.List
	for _, o := range outputs {
		covers := func(p object.Pattern) bool { return p.Covers(o.path) }
		if !slices.ContainsFunc(allowed, covers) {
			found.Add(o.Diagnostic)
		}
		for i, p := range allowed {
			used[i] = used[i] || covers(p)
		}
	}
	if len(c.problems) == 0 { // otherwise not all outputs are known
		for i := range allowed {
			if !used[i] {
				c.problems.Add(unusedAllowance(c.spec.AllowSecretOutputs[i], i, outputs))
			}
		}
	}
	if c.secretOutputsRule == WarnOfSecretOutputs {
		c.graph.SecretOutputs = found.Sorted()
		return
	}
	c.problems.Add(found...)
}

// allowedSecretOutputs are the outputs that the definition allows data of Secrets in. An entry
// that cannot be parsed selects nothing and counts as used.
func (c *compilation) allowedSecretOutputs() (allowed []object.Pattern, used []bool) {
	at := object.Path("spec.allowSecretOutputs")
	if n := len(c.spec.AllowSecretOutputs); n > MaxAllowedSecretOutputs {
		c.problems.Addf(at, "has %d paths, over the limit of %d (MaxAllowedSecretOutputs)", n, MaxAllowedSecretOutputs)
	}
	for i, text := range c.spec.AllowSecretOutputs {
		p, err := object.ParsePattern(text)
		switch {
		case err != nil:
			c.problems.Addf(at.Index(i), "%v", err)
		case p.Root() != "status" && p.Root() != "resources":
			c.problems.Addf(at.Index(i), "begins with %q; a path is in the status, such as status.password, or in a resource, such as resources.web.metadata.labels", p.Root())
		}
		allowed, used = append(allowed, p), append(used, err != nil)
	}
	return allowed, used
}

// unusedAllowance is the problem of an entry that allows nothing. It would allow a later leak that nobody considered.
func unusedAllowance(text string, i int, outputs []secretOutput) diag.Diagnostic {
	paths := make([]string, len(outputs))
	for j, o := range outputs {
		paths[j] = string(o.path)
	}
	return diag.Diagnostic{
		Path: object.Path("spec.allowSecretOutputs").Index(i), Problem: "is " + text + ", which contains no data of a Secret; remove it",
		Nearest: diag.Nearest(text, paths),
	}
}

func (c *compilation) secretOutputs() []secretOutput {
	reads := func(d *draft) bool { return d.Kind.GroupKind() == secretKind }
	if !slices.ContainsFunc(c.drafts, reads) {
		return nil
	}
	f := secretFlow{values: map[string]*expr.Secrecy{}}
	for _, n := range c.graph.Nodes {
		f.node(n, c.draftByID(n.ID).typed)
	}
	f.status(c.graph)
	return f.outputs
}

// secretFlow follows the data of Secrets from node to node.
type secretFlow struct {
	// values are the secrecies of the nodes, by id, and of the iterators of the current node.
	values  map[string]*expr.Secrecy
	outputs []secretOutput
}

func (f *secretFlow) of(p *expr.Program) *expr.Secrecy {
	return p.Secrecy(func(name string) *expr.Secrecy { return f.values[name] })
}

// node adds the outputs of a node, and its value. The nodes that it reads must be added before.
// typed is the schema of its objects, or nil.
func (f *secretFlow) node(n *Node, typed *spec.Schema) {
	if n.template == nil {
		return
	}
	included := f.whether(n.includeWhen)
	var each *expr.Secrecy // which items there are
	if n.forEach != nil {
		for _, d := range n.forEach.dimensions {
			list := f.of(d.list)
			f.values[d.iterator], each = list.Item(), each.Join(list.Shape())
		}
		each = each.Join(f.whether(n.forEach.includeWhen))
	}
	memo := map[*expr.Program]*expr.Secrecy{}
	for _, e := range n.template.Expressions() {
		memo[e.Program] = f.of(e.Program)
	}
	value := n.template.Secrecy(func(p *expr.Program) *expr.Secrecy { return memo[p] })
	value.Visit(func(_ []string, part *expr.Secrecy) { n.secretFields = n.secretFields || part.Keys() })
	if n.Kind.GroupKind() == secretKind {
		value = secretObject(n.ID, value)
	}
	if n.forEach != nil {
		f.values[n.ID] = expr.SecretItems(value) // which the conditions of its own items may read
		each = each.Join(f.whether(n.propagateWhen))
	}
	for _, e := range n.template.Expressions() {
		secrecy := memo[e.Program]
		if isItemName(n, e) {
			secrecy = secrecy.Join(each)
		}
		if !n.Variable && secrecy != nil {
			f.addMetadata(n, typed, e, secrecy)
		}
	}
	if n.forEach != nil {
		for _, d := range n.forEach.dimensions {
			delete(f.values, d.iterator)
		}
	}
	if n.Collection {
		value = expr.SecretItems(value).Join(each).Join(included)
	}
	if n.Variable {
		value = value.Join(included)
	}
	f.values[n.ID] = value
}

// whether is the secrecy of what conditions decide.
func (f *secretFlow) whether(conditions []*expr.Program) (out *expr.Secrecy) {
	for _, p := range conditions {
		out = out.Join(f.of(p).Derived())
	}
	return out
}

// isItemName reports whether an expression is in the name of a collection's items. The names say which items there
// are.
func isItemName(n *Node, e expr.Expression) bool {
	return n.forEach != nil && len(e.At) == 2 && e.At[0] == "metadata" && e.At[1] == "name"
}

// secretObject is the secrecy of a Secret. The names of its keys are not secret, and neither is
// its metadata except for the annotation in which kubectl stores the applied object.
func secretObject(id string, rendered *expr.Secrecy) *expr.Secrecy {
	at := object.Path(id)
	entries := func(path object.Path) *expr.Secrecy { return expr.SecretEntries(expr.Secret(string(path))) }
	applied := expr.SecretEntry(corev1.LastAppliedConfigAnnotation, expr.Secret(string(at.Field("metadata", "annotations"))))
	return expr.SecretFields(map[string]*expr.Secrecy{
		"data":       entries(at.Field("data")),
		"stringData": entries(at.Field("stringData")),
		"metadata":   expr.SecretFields(map[string]*expr.Secrecy{"annotations": applied}),
	}).Join(rendered)
}

// metadataOutputs are the fields of metadata that must not contain data of Secrets, and what messages call them. They
// are outputs also in templates inside an object, such as the Pod template of a Deployment.
var metadataOutputs = map[string]string{"name": "a name", "generateName": "a name", "namespace": "the name of a namespace", "labels": "labels",
	"selector": "a selector"}

// addMetadata adds the outputs of an expression in a node's document. Its value, or a part of
// it, may be metadata.
func (f *secretFlow) addMetadata(n *Node, typed *spec.Schema, e expr.Expression, secrecy *expr.Secrecy) {
	above := make([]string, len(e.At))
	for i, step := range e.At {
		if above[i] = "*"; !isIndex(step) {
			above[i] = fmt.Sprint(step)
		}
	}
	base := allowancePath(object.Path("resources").Field(n.ID), e.At)
	if field := metadataField(above); field != "" {
		f.add(base, e.Path, e.Program, secrecy, metadataOutputs[field])
		return
	}
	secrecy.Visit(func(below []string, part *expr.Secrecy) {
		steps := append(above[:len(above):len(above)], below...)
		field := metadataField(steps)
		if field == "" && len(steps) > 0 && steps[len(steps)-1] == "metadata" {
			field = "labels" // metadata as a whole
		}
		switch {
		case field != "":
			f.add(base, e.Path, e.Program, part, metadataOutputs[field])
		case e.Standalone && part.Keys() && !inAnnotations(steps) && specschema.PermitsField(typed, steps, "metadata"):
			f.add(base, e.Path, e.Program, part, "a field that may contain labels")
		}
	})
}

func inAnnotations(steps []string) bool {
	i := slices.Index(steps, "annotations")
	return i > 0 && steps[i-1] == "metadata"
}

func isIndex(step any) bool { _, is := step.(int); return is }

// metadataField returns the field of metadata that a path leads to or into; empty if it
// leads elsewhere.
func metadataField(steps []string) string {
	for i := 1; i < len(steps); i++ {
		if _, output := metadataOutputs[steps[i]]; output && steps[i-1] == "metadata" {
			return steps[i]
		}
	}
	return ""
}

// allowancePath is a path of a document as authors write it in allowSecretOutputs.
func allowancePath(base object.Path, at []any) object.Path {
	for _, step := range at {
		switch step := step.(type) {
		case int:
			base = base.Index(step)
		case string:
			base = base.Field(step)
		}
	}
	return base
}

func (f *secretFlow) status(g *Graph) {
	if g.status != nil {
		for _, e := range g.status.Expressions() {
			if secrecy := f.of(e.Program); secrecy != nil {
				f.add(allowancePath("status", e.At), e.Path, e.Program, secrecy, "the status of an instance")
			}
		}
	}
	if g.conditions == nil {
		return
	}
	for i, p := range g.conditions.Programs() {
		if secrecy := f.of(p); secrecy != nil {
			f.add(object.Path("status.conditions").Index(i), p.At(), p, secrecy, "a condition")
		}
	}
}

func (f *secretFlow) add(path, at object.Path, p *expr.Program, secrecy *expr.Secrecy, output string) {
	f.outputs = append(f.outputs, secretOutput{path: path, Diagnostic: diag.Diagnostic{
		Path: at, Expr: p.Source(),
		Problem: fmt.Sprintf("puts data of a Secret (%s) into %s, which users without access to the Secret may read; remove it, or allow it: add %s to spec.allowSecretOutputs",
			secrecy.Source(), output, strconv.Quote(string(path))),
	}})
}

// acceptSecretOutputs is for a definition that was accepted before: what it has published already
// is no reason to stop its instances.
var acceptSecretOutputs = WithSecretOutputs(WarnOfSecretOutputs)
