package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// The states of a node that others read. An unready node has its data.
const (
	skipped = "skipped"
	missing = "missing"
	unready = "unready"
	present = "present"
)

// TestWhatIsNeededOfTwoNodes evaluates expressions over two nodes in each combination of their states, in every position. The outcome
// is that of a resource with the expression in its template.
func TestWhatIsNeededOfTwoNodes(t *testing.T) {
	either := map[string]string{
		"skipped skipped": "none", "skipped missing": "waits for far", "skipped unready": "waits for far", "skipped present": "far",
		"missing *": "waits for near", "unready *": "waits for near", "present *": "near",
	}
	nearOnly := map[string]string{"skipped *": "skipped with near", "missing *": "waits for near", "unready *": "waits for near", "present *": "near"}
	farOnly := map[string]string{"* skipped": "skipped with far", "* missing": "waits for far", "* unready": "waits for far", "* present": "far"}
	notSkipped := map[string]string{"skipped *": "none", "missing *": "waits for near", "unready *": "waits for near", "present *": "near"}
	constant := map[string]string{"* *": "none"}
	cases := map[string]struct {
		expr string
		want map[string]string
	}{
		"the first that is there":             {`near.?data.?ep.or(far.?data.?ep).orValue('none')`, either},
		"the first, by has()":                 {`has(near.data) ? near.data.ep : has(far.data) ? far.data.ep : 'none'`, either},
		"the first, by has() of a deep field": {`has(near.data.ep) ? near.data.ep : has(far.data.ep) ? far.data.ep : 'none'`, either},
		"the branch that is taken":            {`schema.spec.picked ? near.data.ep : far.data.ep`, nearOnly},
		"the other branch":                    {`!schema.spec.picked ? near.data.ep : far.data.ep`, farOnly},
		"the node of a branch":                {`(schema.spec.picked ? near : far).data.ep`, nearOnly},
		"a field that is always read":         {`near.data.ep`, nearOnly},
		"the node as a whole":                 {`json.marshal(near) == '{}' ? 'none' : 'near'`, nearOnly},
		"a comparison of the node":            {`dyn(near) != null ? 'near' : 'none'`, nearOnly},
		"a default":                           {`near.?data.?ep.orValue('none')`, notSkipped},
		"a default of a binding":              {`cel.bind(d, near.?data, d.?ep.orValue('none'))`, notSkipped},
		"an alternative that is not needed":   {`optional.of('none').orValue(near.data.ep)`, constant},
		"behind a condition that is false":    {`!schema.spec.picked && near.data.ep == 'near' ? 'near' : 'none'`, constant},
		"behind a condition that is true":     {`schema.spec.picked && near.data.ep == 'near' ? 'near' : 'none'`, nearOnly},
		"in no item of a list":                {`[].map(x, near.data.ep + x).size() == 0 ? 'none' : 'near'`, constant},
		"in each item of a list":              {`['x'].map(x, near.data.ep)[0]`, nearOnly},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := eitherGraph(t, c.expr)
			for _, near := range []string{skipped, missing, unready, present} {
				for _, far := range []string{skipped, missing, unready, present} {
					want := ""
					for _, key := range []string{near + " " + far, near + " *", "* " + far, "* *"} {
						if outcome, ok := c.want[key]; ok && want == "" {
							want = outcome
						}
					}
					got := eitherOutcomes(g.Compose(eitherFacts(near, far)))
					if diff := cmp.Diff(expectedOutcomes(want, near, far), got); diff != "" {
						t.Errorf("near is %s, far is %s (-want +got):\n%s", near, far, diff)
					}
				}
			}
		})
	}
}

func eitherGraph(t *testing.T, expression string) *graph.Graph {
	d := definition(t, strings.ReplaceAll(`
metadata: {name: either}
spec:
  schema: {kind: Either, apiVersion: v1alpha1, spec: {near: boolean, far: boolean, picked: boolean}, status: {value: "${EXPR}"}}
  resources:
    - id: near
      includeWhen: ["${schema.spec.near}"]
      readyWhen: ["${near.data.ready == 'yes'}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: near}}
    - id: far
      includeWhen: ["${schema.spec.far}"]
      readyWhen: ["${far.data.ready == 'yes'}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: far}}
    - id: template
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: template}, data: {value: "${EXPR}"}}
    - id: condition
      includeWhen: ["${(EXPR) == 'near'}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: condition}}
    - id: variable
      value: {value: "${EXPR}"}
    - id: reader
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: reader}, data: {value: "${variable.value}"}}
    - id: members
      forEach: [{i: "${['a']}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${i}"}, data: {value: "${EXPR}"}}
    - id: list
      forEach: [{i: "${[EXPR]}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${i}"}, data: {value: "${i}"}}
`, "EXPR", expression))
	g, problems := graph.Compile(&d.Spec, commonKinds(t, ""))
	if problems != nil {
		t.Fatal(problems.Err())
	}
	return g
}

func eitherFacts(near, far string) plan.Facts {
	instance := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "one", "namespace": "prod", "uid": "i-1"},
		"spec":     map[string]any{"near": near != skipped, "far": far != skipped, "picked": true},
	}}
	facts := plan.Facts{Instance: instance, Now: began, Owned: map[string][]*unstructured.Unstructured{}}
	for name, state := range map[string]string{"near": near, "far": far} {
		if state == unready || state == present {
			ready := map[string]string{unready: "no", present: "yes"}[state]
			facts.Owned[name] = []*unstructured.Unstructured{{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "prod"},
				"data": map[string]any{"ep": name, "ready": ready},
			}}}
		}
	}
	return facts
}

// eitherOutcomes are what becomes of the nodes that read near and far, and of the status.
func eitherOutcomes(desired plan.Desired) map[string]string {
	out := map[string]string{"status": fmt.Sprint(desired.Status["value"])}
	for _, n := range desired.Nodes {
		id := n.ID
		if n.Collection != "" {
			id = n.Collection
		}
		outcome := "included"
		switch {
		case id == "near" || id == "far":
			continue
		case n.SkipMessage != "" && n.SkipCause.By == id:
			outcome = "excluded"
		case n.SkipMessage != "":
			outcome = "skipped with " + n.SkipCause.By
		case len(n.Waits) > 0:
			root, _, _ := strings.Cut(n.Waits[0].On, ".")
			outcome = "waits for " + root
			if n.Waits[0].Reason == plan.EvaluationFailed {
				outcome = n.Waits[0].String()
			}
		case n.Object != nil && n.Object.Object["data"] != nil:
			outcome, _, _ = unstructured.NestedString(n.Object.Object, "data", "value")
		}
		out[id] = outcome
	}
	return out
}

// expectedOutcomes are the outcomes in all positions, given that in a template.
func expectedOutcomes(want, near, far string) map[string]string {
	isPending := strings.Contains(want, " ")
	out := map[string]string{"status": want, "template": want, "condition": want, "variable": "included", "reader": want, "members": want, "list": want}
	if isPending {
		out["variable"], out["status"] = want, "<nil>"
	}
	for name, state := range map[string]string{"near": near, "far": far} {
		if want == "waits for "+name {
			out["reader"] = "waits for variable"
			if state == unready { // which a status does not wait for
				out["status"] = name
			}
		}
	}
	if want == "near" {
		out["condition"] = "included"
	} else if !isPending {
		out["condition"] = "excluded"
	}
	return out
}

// TestAnUnreadyNodeSkipsNothing reads a node that is not ready, in a branch, to choose a skipped node: a readable value that may still
// change must not have objects deleted.
func TestAnUnreadyNodeSkipsNothing(t *testing.T) {
	g := eitherGraph(t, `schema.spec.picked ? (near.data.ready == 'no' ? far.data.ep : 'none') : 'none'`)
	got := eitherOutcomes(g.Compose(eitherFacts(unready, skipped)))
	want := map[string]string{
		"status": "<nil>", "template": "waits for near", "condition": "waits for near", "variable": "waits for near",
		"reader": "waits for variable", "members": "waits for near", "list": "waits for near",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
