package graph

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// A node of a Graph whose apiVersion or kind has an expression is compiled with a second node, a value that has these two.
// The node waits for it, and the Graph is compiled again with the kind that it gives. Such a node has no types: the kind may
// have a schema, but which kind it is depends on other objects.

// WithComputedKinds sets the kinds of nodes of a Graph, by their ids, that are computed.
func WithComputedKinds(kinds map[string]schema.GroupVersionKind) Option {
	return func(c *compilation) { c.graph.standalone.computed = kinds }
}

// notComputedYet is the kind of a node whose kind is not computed yet.
var notComputedYet = schema.GroupVersionKind{Group: "computed.kro.run", Version: "v1", Kind: "NotComputedYet"}

// kindNode is the id of the node with the kind of another.
func kindNode(id string) string { return id + "/kind" }

// computedKind returns the value of the second node of a node; nil if its kind is plain text.
func computedKind(n *v1alpha1.GraphNode) *runtime.RawExtension {
	var written struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	switch {
	case n.Template != nil:
		_ = utiljson.Unmarshal(n.Template.Raw, &written) // an error is reported with the node
	case n.Patch != nil:
		_ = utiljson.Unmarshal(n.Patch.Raw, &written)
	case n.Ref != nil:
		written.APIVersion, written.Kind = n.Ref.APIVersion, n.Ref.Kind
	}
	if !strings.Contains(written.APIVersion+written.Kind, "${") {
		return nil
	}
	raw, err := json.Marshal(written)
	if err != nil {
		return nil
	}
	return &runtime.RawExtension{Raw: raw}
}

// setComputedKind puts the kind into the document of a node, if it is computed.
func (c *compilation) setComputedKind(d *draft) {
	if d.kindFrom == "" {
		return
	}
	kind, known := c.graph.standalone.computed[d.ID]
	if !known {
		kind = notComputedYet
	}
	d.document["apiVersion"], d.document["kind"] = kind.GroupVersion().String(), kind.Kind
}

// noteKind records the kind of a node that is computed. It returns waits if the node has another kind yet, or the value is no kind.
func (c *composition) noteKind(n *Node) []plan.Wait {
	value, _ := c.vars[n.kindFrom].(map[string]any)
	if n.kindFrom == "" || value == nil {
		return nil
	}
	apiVersion, _ := value["apiVersion"].(string)
	kind, _ := value["kind"].(string)
	for field, why := range map[string]string{"apiVersion": object.CheckAPIVersion(apiVersion), "kind": object.CheckKind(kind)} {
		if why != "" {
			return []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: field, Detail: why}}
		}
	}
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	if c.desired.Kinds == nil {
		c.desired.Kinds = map[string]schema.GroupVersionKind{}
	}
	c.desired.Kinds[n.ID] = gvk
	if gvk != n.Kind {
		return []plan.Wait{{Node: n.ID, Reason: plan.Syncing, On: kind + " of " + apiVersion, Detail: "it is looked up"}}
	}
	return nil
}
