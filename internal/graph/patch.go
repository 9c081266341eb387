package graph

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// A patch contributes fields to an object that is not the Graph's. It is rendered as a template, and its object is read as
// the object of a reference. How the fields are applied and released: see package plan.

func (c *compilation) decodePatch(d *draft, patch runtime.RawExtension) {
	d.Patch, d.External = true, true
	c.dropPatchOptions(d)
	document, ok := c.decode(patch, d.documentPath())
	if !ok {
		d.broken = true
		return
	}
	c.decodeObject(d, document)
	if !d.broken {
		c.checkContribution(d)
	}
}

// dropPatchOptions reports the options of a node that do not apply to a patch, and drops them.
func (c *compilation) dropPatchOptions(d *draft) {
	kept := v1alpha1.NodeOptions{ForEach: d.source.ForEach, IncludeWhen: d.source.IncludeWhen, WaitFor: d.source.WaitFor}
	given, allowed := reflect.ValueOf(d.source.NodeOptions), reflect.ValueOf(kept)
	for i := range given.NumField() {
		if field := given.Type().Field(i); !given.Field(i).IsZero() && allowed.Field(i).IsZero() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			c.problems.Addf(d.at.Field(name), "does not apply to a patch: its object is not the Graph's")
		}
	}
	d.source.NodeOptions = kept
}

// unpatchable are fields of the metadata that say what becomes of an object.
var unpatchable = []string{"ownerReferences", "finalizers", "generateName"}

// checkContribution checks that a patch has fields, all of one endpoint.
func (c *compilation) checkContribution(d *draft) {
	at := d.documentPath()
	metadata, _ := d.document["metadata"].(map[string]any)
	for _, field := range unpatchable {
		if _, set := metadata[field]; set {
			c.breakf(d, at.Field("metadata", field), "cannot be patched: remove it from the patch")
		}
	}
	fields := patchedFields(d.document)
	_, status := d.document["status"]
	if status {
		d.subresource = plan.StatusSubresource
	}
	switch {
	case len(fields) == 0 && !status:
		c.breakf(d, at, "has no fields besides the identity of the object: add what it is to contribute")
	case len(fields) > 0 && status:
		c.breakf(d, at, "has the status and also %s: the API server writes the status separately, so use a node for each", strings.Join(fields, ", "))
	}
}

// patchedFields lists, sorted, the fields of a patch besides the identity of its object and the status.
func patchedFields(document map[string]any) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(document)) {
		switch name {
		case "apiVersion", "kind", "status":
		case "metadata":
			metadata, _ := document[name].(map[string]any)
			for _, field := range slices.Sorted(maps.Keys(metadata)) {
				if field != "name" && field != "namespace" {
					out = append(out, "metadata."+field)
				}
			}
		default:
			out = append(out, name)
		}
	}
	return out
}

// documentName is how messages name the document of a node.
func (d *draft) documentName() string {
	if d.Patch {
		return "patch"
	}
	return "template"
}

// checkPatchesUnread reports expressions of a node that read a patch.
func (c *compilation) checkPatchesUnread(d *draft) {
	check := func(refs []expr.Ref, at object.Path, source string) {
		for _, r := range refs {
			if other := c.draftByID(r.Root); other != nil && other.Patch && other != d && !d.Node.isIterator(r.Root) {
				c.problems.Add(diag.Diagnostic{Path: at, Expr: source, Problem: r.Root + " is a patch, which has no value; read its object by a ref"})
				return
			}
		}
	}
	if d.template != nil {
		for _, e := range d.template.Expressions() {
			check(e.Program.Refs(), e.Path, e.Program.Source())
		}
	}
	conditions := d.includeWhen
	if d.forEach != nil {
		conditions = slices.Concat(conditions, d.forEach.includeWhen)
		for _, dimension := range d.forEach.dimensions {
			conditions = append(conditions, dimension.list)
		}
	}
	for _, p := range conditions {
		check(p.Refs(), p.At(), p.Source())
	}
	for _, w := range d.waitFor {
		check([]expr.Ref{w.ref}, d.at.Field("waitFor", w.ref.Root), "")
	}
}

// contribute makes a node a contribution, also while its object is missing: no other node must render the object. It is
// ready once its fields are applied.
func (n *Node) contribute(patch *unstructured.Unstructured, out *plan.Node) {
	out.Object, out.Contribution, out.Ready = patch, &plan.Contribution{Subresource: n.subresource}, out.Observed != nil
}
