package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// describeGraph describes a graph, one line for each node.
func describeGraph(g *graph.Graph) string {
	var b strings.Builder
	scope := "cluster-scoped"
	if g.Namespaced {
		scope = "namespaced"
	}
	fmt.Fprintf(&b, "%s %s, %s\n", g.Kind.GroupVersion(), g.Kind.Kind, scope)
	for _, v := range g.Versions {
		fmt.Fprintf(&b, "also %s", v.Name)
		for _, trait := range []struct {
			holds bool
			word  string
		}{{!v.Served, "not served"}, {v.Deprecated, "deprecated"}, {!v.Identical, "converted"}} {
			if trait.holds {
				b.WriteString(", " + trait.word)
			}
		}
		b.WriteByte('\n')
	}
	if g.DeletionDefaults.Limits != (inventory.Limits{}) {
		fmt.Fprintf(&b, "deletion: stalled after %s, lets go after %s\n", g.DeletionDefaults.Timeout, g.DeletionDefaults.ForceAfter)
	}
	for _, n := range g.Nodes {
		if n.Variable {
			fmt.Fprintf(&b, "%d %s: variable", n.Layer, n.ID)
		} else {
			fmt.Fprintf(&b, "%d %s: %s %s", n.Layer, n.ID, n.Kind.GroupVersion(), n.Kind.Kind)
		}
		for _, trait := range []struct {
			holds bool
			word  string
		}{{n.External, "external"}, {n.Patch, "patch"}, {n.Collection, "collection"}, {n.Nested, "nested"}, {!n.KindKnown && !n.Variable, "unknown"}, {n.KindKnown && !n.Namespaced, "cluster-scoped"}} {
			if trait.holds {
				b.WriteString(", " + trait.word)
			}
		}
		if len(n.Dependencies) > 0 {
			b.WriteString(" ← " + strings.Join(n.Dependencies, ", "))
		}
		if len(n.DeleteAfter) > 0 {
			b.WriteString("; deleted after " + strings.Join(n.DeleteAfter, ", "))
		}
		if n.OnDelete != "" {
			b.WriteString("; on deletion " + string(n.OnDelete))
		}
		for _, policy := range n.Policies() {
			b.WriteString("; " + policy)
		}
		b.WriteByte('\n')
	}
	for _, gvk := range g.Missing {
		fmt.Fprintf(&b, "missing: %s %s\n", gvk.GroupVersion(), gvk.Kind)
	}
	return b.String()
}

// describePass describes what one pass desires, decides and reports.
func describePass(t *testing.T, desired plan.Desired, p plan.Plan, s plan.Summary, now time.Time) string {
	var b strings.Builder
	for i, step := range p.Steps {
		node := desired.Nodes[i]
		fmt.Fprintf(&b, "%s: %s", step.Node, step.Action)
		if step.Action == plan.Keep && !step.Ready {
			b.WriteString(because(step.Unready))
		}
		b.WriteString(because(step.Problem) + "\n")
		for _, w := range step.Waits {
			fmt.Fprintf(&b, "  %s: %s, next in %s\n", w.Reason, w.On, w.Next(now))
		}
		if step.Action.Applies() {
			b.WriteString(indent(golden.YAML(t, plainly(node.Object))))
		}
		if c := step.Contribution; c != nil {
			b.WriteString(indent(golden.YAML(t, c.Record())) + indent(golden.YAML(t, plainly(c.Object))))
		}
	}
	for _, o := range p.Prune {
		fmt.Fprintf(&b, "prune: %s\n", object.KeyOf(o))
	}
	if len(desired.Status) > 0 {
		b.WriteString("status:\n" + indent(golden.YAML(t, desired.Status)))
	}
	if desired.AuthorConditions != nil {
		b.WriteString(describeConditions(desired.AuthorConditions, s))
	}
	if desired.RequeueAfter > 0 && desired.Problem.Reason == "" {
		fmt.Fprintf(&b, "composed again in %s\n", desired.RequeueAfter)
	}
	fmt.Fprintf(&b, "summary: %s", s.State)
	for _, part := range []struct{ name, text string }{
		{"", string(s.Reason)}, {"", s.Message}, {"unresolvable: ", s.Unresolvable}, {"stalled: ", s.Stalled},
	} {
		if part.text != "" {
			b.WriteString("\n  " + part.name + part.text)
		}
	}
	if s.Retry > 0 {
		fmt.Fprintf(&b, "\n  again in %s", s.Retry)
	}
	return b.String() + "\n"
}

// describeConditions describes the author's conditions if the resources are ready and if
// they are not.
func describeConditions(author func(condition.Set) plan.AuthorConditions, s plan.Summary) string {
	ready := v1alpha1.Condition{Type: v1alpha1.InstanceResourcesReady, Status: condition.True, Reason: "AllResourcesReady"}
	if s.Reason != "" {
		ready.Status, ready.Reason = condition.False, string(s.Reason)
	}
	said := author(condition.Set{ready})
	text := ""
	for _, c := range said.Conditions {
		text += strings.TrimRight(fmt.Sprintf("condition %s: %s %s %s", c.Type, c.Status, c.Reason, c.Message), " ") + "\n"
	}
	if said.Partial {
		text += "others stay as they were\n"
	}
	if said.RequeueAfter > 0 {
		text += fmt.Sprintf("evaluated again in %s\n", said.RequeueAfter)
	}
	for _, problem := range said.Problems {
		text += "problem: " + problem + "\n"
	}
	return text
}

func because(p plan.Problem) string {
	if p.Message == "" {
		return ""
	}
	return strings.TrimSuffix(" "+string(p.Reason), " ") + ": " + p.Message
}

// plainly is an object without its kind, which the graph shows.
func plainly(o *unstructured.Unstructured) map[string]any {
	out := o.DeepCopy().Object
	delete(out, "apiVersion")
	delete(out, "kind")
	return out
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

func checkSame(t *testing.T, path, want string, d *v1alpha1.ResourceGraphDefinition, kinds graph.Kinds) {
	t.Helper()
	g, problems := graph.Compile(&d.Spec, kinds)
	if problems != nil {
		t.Errorf("%s: in another order: %v", path, problems.Err())
		return
	}
	if diff := cmp.Diff(want, describeGraph(g)); diff != "" {
		t.Errorf("%s: in another order (-want +got):\n%s", path, diff)
	}
}
