package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// decodeSelector reads by which labels a reference selects.
func (c *compilation) decodeSelector(d *draft, at object.Path) bool {
	var selector any
	if err := utiljson.Unmarshal(d.source.ExternalRef.Metadata.Selector.Raw, &selector); err != nil {
		c.breakf(d, at, "invalid label selector")
		return false
	}
	metadata, _ := d.document["metadata"].(map[string]any)
	metadata["selector"] = selector
	return true
}

// selectingSchema is the schema of a reference that selects.
var selectingSchema = func() *spec.Schema {
	fields := func(props map[string]spec.Schema) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: props}}
	}
	operator := *spec.StringProperty()
	for _, o := range []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	} {
		operator.Enum = append(operator.Enum, string(o))
	}
	expression := fields(map[string]spec.Schema{"key": *spec.StringProperty(), "operator": operator, "values": *spec.ArrayProperty(spec.StringProperty())})
	out := fields(map[string]spec.Schema{
		"apiVersion": *spec.StringProperty(),
		"kind":       *spec.StringProperty(),
		"metadata": fields(map[string]spec.Schema{
			"namespace": *spec.StringProperty(),
			"selector": fields(map[string]spec.Schema{
				"matchLabels": *spec.MapProperty(spec.StringProperty()), "matchExpressions": *spec.ArrayProperty(&expression),
			}),
		}),
	})
	return &out
}()

// selected looks up the objects that a reference selects: a list, which may be empty.
func (c *composition) selected(n *Node, out *plan.Node) {
	if len(out.Waits) == 0 {
		out.Waits = c.unmet(n)
	}
	if len(out.Waits) > 0 {
		c.passOn(out.Waits)
		return
	}
	document, err := n.template.Render(c.vars)
	if err != nil {
		out.Waits = distinct(c.graph.waitsOf(n, err))
		return
	}
	metadata, _ := document.(map[string]any)["metadata"].(map[string]any)
	selector, err := selectorOf(metadata["selector"])
	if err != nil {
		detail := err.Error()
		if c.graph.conceals(n.refs) {
			detail = "it is no label selector " + hidden
		}
		out.Waits = []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "metadata.selector", Detail: detail}}
		return
	}
	need := plan.Need{Kind: n.Kind, Several: true, Selector: selector.String()}
	need.Namespace, _ = metadata["namespace"].(string)
	if why := object.CheckNamespace(need.Namespace); need.Namespace != "" && why != "" && c.graph.guest == nil {
		out.Waits = []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "metadata.namespace", Detail: n.quoted(need.Namespace) + why}}
		return
	}
	c.desired.Needs = append(c.desired.Needs, need)
	look, looked := c.facts.External[need]
	wait := plan.Wait{Node: n.ID, Reason: plan.Syncing, On: n.selection(need), Detail: "being looked up"}
	switch {
	case looked && look.Unreadable == nil:
		c.selection(n, out, look.Objects)
		return
	case looked:
		wait.Reason, wait.Detail = look.Unreadable.Reason, look.Unreadable.Message
	}
	out.Waits = []plan.Wait{wait}
}

// selection names what a reference selects; the selector may be from a Secret.
func (n *Node) selection(need plan.Need) string {
	text := n.Kind.Kind + " objects"
	if !n.derived {
		text += " [" + need.Selector + "]"
		if need.Namespace != "" {
			text += " in " + need.Namespace
		}
	}
	return text
}

// selectorOf reads a selector that was computed. One of another form must not match
// everything.
func selectorOf(value any) (labels.Selector, error) {
	if _, ok := value.(map[string]any); !ok {
		return nil, fmt.Errorf("it is no object with matchLabels or matchExpressions")
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var selector metav1.LabelSelector
	if err := decoder.Decode(&selector); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(&selector)
}

// selection makes the objects that were found what others read, in the order of their
// names.
func (c *composition) selection(n *Node, out *plan.Node, found []*unstructured.Unstructured) {
	sorted := slices.Clone(found)
	slices.SortFunc(sorted, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	list := make([]any, len(sorted))
	unready := 0
	for i, o := range sorted {
		list[i] = o.Object
		id := inventory.ItemID(n.ID, c.facts.Instance.GetNamespace(), o.GetNamespace(), o.GetName())
		if ready, why := c.readiness(n, id, o); !ready {
			if unready++; unready == 1 {
				out.Unready = why
			}
		}
	}
	if unready > 1 {
		out.Unready.Message = diag.Shorten(out.Unready.Message, longestComplaint) + fmt.Sprintf("; and %d more", unready-1)
	}
	out.Ready = unready == 0
	c.vars[n.ID] = list
}
