package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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

// Values of the selector may be expressions.
func (c *compilation) decodeSelector(d *draft, at object.Path) bool {
	var selector any
	if err := utiljson.Unmarshal(d.source.ExternalRef.Metadata.Selector.Raw, &selector); err != nil {
		c.breakf(d, at, "invalid label selector")
		return false
	}
	if !c.checkDepth(selector, at) {
		d.broken = true
		return false
	}
	metadata, _ := d.document["metadata"].(map[string]any)
	metadata["selector"] = selector
	return true
}

var selectorReferenceSchema = func() *spec.Schema {
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

// selectorProblems begins the problems of a selector with what the dialect says of them: tools
// match these words.
func selectorProblems(problems diag.List, reference map[string]any, selector object.Path) diag.List {
	matchLabels, _, _ := unstructured.NestedFieldNoCopy(reference, "metadata", "selector", "matchLabels")
	_, isText := matchLabels.(string)
	out := slices.Clone(problems)
	for i := range out {
		p := &out[i]
		field, inside := strings.CutPrefix(string(p.Path), string(selector)+".")
		switch {
		case !inside:
		case field == "matchLabels" && isText && (p.Expr == "" || strings.Contains(p.Problem, "without its")): // and no expression
			p.Problem = "expected object type for path metadata.selector.matchLabels, got string: " + p.Problem
		case strings.HasPrefix(p.Problem, "there is no field "):
			p.Problem = "schema not found for field " + field[strings.LastIndex(field, ".")+1:] + ": " + p.Problem
		case strings.HasSuffix(field, ".operator"):
			p.Problem = "invalid label selector: " + p.Problem
		}
	}
	return out
}

// composeSelection computes a reference with a selector: a list of objects, which may be
// empty.
func (c *composition) composeSelection(n *Node, out *plan.Node) {
	if len(out.Waits) == 0 {
		out.Waits = c.waitsBeforeRender(n)
	}
	if len(out.Waits) > 0 {
		c.addWaitDetails(out.Waits)
		return
	}
	document, isComplete := c.renderTemplate(n, c.vars, out)
	if !isComplete {
		return
	}
	metadata, _ := document.(map[string]any)["metadata"].(map[string]any)
	selector, err := parseSelector(metadata["selector"])
	if err != nil {
		detail := err.Error()
		if c.graph.mayReadSecret(n.refs) {
			detail = "it is not a label selector " + redacted
		}
		out.Waits = []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "metadata.selector", Detail: detail}}
		return
	}
	need := plan.Need{Kind: n.Kind, Multiple: true, Selector: selector.String()}
	need.Namespace, _ = metadata["namespace"].(string)
	if why := object.CheckNamespace(need.Namespace); need.Namespace != "" && why != "" && c.graph.embedded == nil {
		out.Waits = []plan.Wait{{Node: n.ID, Reason: plan.EvaluationFailed, On: "metadata.namespace", Detail: n.invalidNamePrefix(need.Namespace) + why}}
		return
	}
	c.desired.Needs = append(c.desired.Needs, need)
	found, isKnown := c.facts.External[need]
	wait := plan.Wait{Node: n.ID, Reason: plan.Syncing, On: n.describeSelection(need), Detail: "being looked up"}
	switch {
	case isKnown && found.Unreadable == nil:
		c.setSelection(n, out, found.Objects)
		return
	case isKnown:
		wait.Reason, wait.Detail = found.Unreadable.Reason, found.Unreadable.Message
	}
	out.Waits = []plan.Wait{wait}
}

// describeSelection names the selected objects, without a selector that may come from a
// Secret.
func (n *Node) describeSelection(need plan.Need) string {
	text := n.Kind.Kind + " objects"
	if !n.readsSecret {
		text += " [" + need.Selector + "]"
		if need.Namespace != "" {
			text += " in " + need.Namespace
		}
	}
	return text
}

// parseSelector parses a rendered selector. A value that is not a selector is an error: it
// must not match every object.
func parseSelector(value any) (labels.Selector, error) {
	if _, ok := value.(map[string]any); !ok {
		return nil, fmt.Errorf("it is not an object with matchLabels or matchExpressions")
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

// setSelection sorts the found objects by name.
func (c *composition) setSelection(n *Node, out *plan.Node, found []*unstructured.Unstructured) {
	sorted := slices.Clone(found)
	slices.SortFunc(sorted, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	list := make([]any, len(sorted))
	unready := 0
	for i, o := range sorted {
		list[i] = o.Object
		id := inventory.ItemID(n.ID, c.facts.Instance.GetNamespace(), o.GetNamespace(), o.GetName())
		ready, why := c.readiness(n, id, o)
		c.selected[o.GetUID()] = plan.Progress{Ready: ready, Updated: true}
		if !ready {
			if unready++; unready == 1 {
				out.Unready = why
			}
		}
	}
	if unready > 1 {
		out.Unready.Message = diag.TruncateMiddle(out.Unready.Message, maxReportedProblem) + fmt.Sprintf("; and %d more", unready-1)
	}
	out.Ready = unready == 0
	c.vars[n.ID] = list
}
