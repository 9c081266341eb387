package plan_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// contributes is a node that contributes to a foreign ConfigMap of the given name.
func contributes(id, name, subresource string) plan.Node {
	n := wants(id, 0, name)
	n.External, n.Ready, n.Contribution = true, true, &plan.Contribution{Subresource: subresource}
	n.Observed = rendered(name)
	n.Observed.Object["data"] = map[string]any{"their": "data"}
	n.Observed.SetUID(types.UID("uid-" + name))
	return n
}

// as is a manager by its definition: the instance's part and the node's part.
func as(node string) string {
	part := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])[:12]
	}
	return "kro-graphengine.patch." + part("i-1") + "." + part("i-1/"+node)
}

// holding is the object after the contribution of a node was applied.
func holding(o *unstructured.Unstructured, node string, fields map[string]any) *unstructured.Unstructured {
	o = o.DeepCopy()
	e := entry(fieldsOf(fields))
	e.Manager = as(node)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{e})
	return o
}

func TestContributions(t *testing.T) {
	desired := map[string]any{"data": map[string]any{"a": "b"}}
	applied := contributes("p", "x", "")
	applied.Observed = holding(applied.Observed, "p", desired)
	applied.Observed.Object["data"] = map[string]any{"a": "b", "their": "data"}
	contribution := plan.Contribution{Manager: as("p"), Object: applied.Object}
	answered := plan.Contributed{"p": *plan.AnswerTo(&contribution, applied.Observed)}
	with := func(change func(*plan.Node)) plan.Node {
		n := applied
		n.Observed = applied.Observed.DeepCopy()
		change(&n)
		return n
	}
	step := plan.Step{Node: "p", Current: applied.Observed, Contribution: &contribution}
	refused := plan.Contributed{"p": *plan.RefusedContribution(step, []string{"data.a"}, "kubectl")}
	item := contributes("p[x]", "x", "")
	item.Collection = "p"

	for name, tc := range map[string]struct {
		reason   string
		nodes    []plan.Node
		known    plan.Contributed
		problems map[string]plan.Problem
		want     []string
		manager  string
	}{
		"The object shows the contribution": {
			reason: "a restart is no reason to write", nodes: []plan.Node{applied}, want: []string{"p: Keep"}, manager: as("p"),
		},
		"The object has no contribution yet": {
			reason: "it is the first apply", nodes: []plan.Node{contributes("p", "x", "")}, want: []string{"p: Contribute"}, manager: as("p"),
		},
		"The object shows another value": {
			reason: "the API server may have converted it, which one apply shows", want: []string{"p: Contribute"}, manager: as("p"),
			nodes: []plan.Node{with(func(n *plan.Node) { n.Observed.Object["data"] = map[string]any{"a": "c"} })},
		},
		"The object shows a further field": {
			reason: "a former version of the patch had it", want: []string{"p: Contribute"}, manager: as("p"),
			nodes: []plan.Node{with(func(n *plan.Node) {
				n.Observed = holding(n.Observed, "p", map[string]any{"data": map[string]any{"a": "b", "c": "d"}})
			})},
		},
		"The manager owns what it was granted": {
			reason: "nothing has changed", nodes: []plan.Node{applied}, known: answered, want: []string{"p: Keep"}, manager: as("p"),
		},
		"The patch has changed": {
			reason: "the desired fields differ from those applied", known: answered, want: []string{"p: Contribute"}, manager: as("p"),
			nodes: []plan.Node{with(func(n *plan.Node) { n.Object = rendered("x"); n.Object.SetLabels(map[string]string{"a": "b"}) })},
		},
		"Another manager has taken a field": {
			reason: "the manager owns less than it was granted", known: answered, want: []string{"p: Contribute"}, manager: as("p"),
			nodes: []plan.Node{with(func(n *plan.Node) { n.Observed.SetManagedFields(nil) })},
		},
		"Another object has the name": {
			reason: "the new one has none of the fields", known: answered, want: []string{"p: Contribute"}, manager: as("p"),
			nodes: []plan.Node{with(func(n *plan.Node) { n.Observed.SetUID("next"); n.Observed.SetManagedFields(nil) })},
		},
		"The object is being deleted": {
			reason: "its successor gets the fields", known: answered, want: []string{"p: Wait ResourceDeleting: ConfigMap prod/x is being deleted"}, manager: as("p"),
			nodes: []plan.Node{with(func(n *plan.Node) { dying(n.Observed) })},
		},
		"The last apply failed": {
			reason: "the next reconcile repeats it", nodes: []plan.Node{applied}, problems: map[string]plan.Problem{"p": {Reason: plan.Forbidden, Message: "no"}},
			want: []string{"p: Wait Forbidden: no"}, manager: as("p"),
		},
		"A conflict lasts while the object is the same": {
			reason: "the answer would be the same", nodes: []plan.Node{applied}, known: refused, manager: as("p"),
			want: []string{"p: Wait FieldConflict: data.a of ConfigMap prod/x is set by kubectl to another value; nothing of the patch is applied until that " +
				"manager releases or changes it"},
		},
		"A conflict may be over when the object changes": {
			reason: "the other manager may have released the field", known: refused, want: []string{"p: Contribute"}, manager: as("p"),
			nodes: []plan.Node{with(func(n *plan.Node) { n.Observed.SetLabels(map[string]string{"x": "y"}) })},
		},
		"Items have the manager of their node": {
			reason: "the record needs no more", nodes: []plan.Node{item}, want: []string{"p[x]: Contribute"}, manager: as("p"),
		},
		"A template and a patch of one object": {
			reason: "the object would be owned and not", nodes: []plan.Node{applied, wants("q", 0, "x")},
			want: []string{"p: Wait Rejected: renders ConfigMap prod/x, which node q renders too", "q: Wait Rejected: renders ConfigMap prod/x, which node p renders too"},
		},
		"A template of an object that a patch waits for": {
			reason: "it must not be created first", nodes: []plan.Node{with(func(n *plan.Node) {
				n.Observed, n.Waits = nil, []plan.Wait{{Node: "p", Reason: plan.WaitingForExternal, On: "ConfigMap prod/x"}}
			}), wants("q", 0, "x")},
			want: []string{"p: Wait Rejected: renders ConfigMap prod/x, which node q renders too", "q: Wait Rejected: renders ConfigMap prod/x, which node p renders too"},
		},
		"Two patches of one object": {
			reason: "they would take fields from each other", nodes: []plan.Node{applied, contributes("q", "x", "")},
			want: []string{"p: Wait Rejected: renders ConfigMap prod/x, which node q renders too", "q: Wait Rejected: renders ConfigMap prod/x, which node p renders too"},
		},
		"A patch of the object and one of its status": {
			reason: "the API server keeps their fields apart", nodes: []plan.Node{applied, contributes("q", "x", plan.StatusSubresource)},
			want: []string{"p: Keep", "q: Contribute"}, manager: as("p"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.Compute(plan.Desired{Nodes: tc.nodes}, plan.Facts{Instance: instance(), Now: now, Problems: tc.problems},
				plan.History{Contributed: tc.known}, owner, v1alpha1.ChildManager)
			for i, step := range p.Steps {
				got := strings.TrimSuffix(step.Node+": "+string(step.Action)+" "+string(step.Problem.Reason)+": "+step.Problem.Message, " : ")
				if got != tc.want[i] {
					t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want[i])
				}
			}
			if c := p.Steps[0].Contribution; tc.manager != "" && c.Manager != tc.manager {
				t.Errorf("%s: the manager is %s, want %s", tc.reason, c.Manager, tc.manager)
			}
			if len(p.Steps) == 1 && p.Steps[0].Object != nil {
				t.Error("the object counts as the instance's")
			}
		})
	}
}

// What is released is what a settled plan does not contribute.
func TestUnwantedContributions(t *testing.T) {
	applied := contributes("p", "x", "")
	applied.Observed = holding(applied.Observed, "p", map[string]any{"data": map[string]any{"a": "b"}})
	contribution := plan.Contribution{Manager: as("p"), Object: applied.Object}
	known := plan.Contributed{"p": *plan.AnswerTo(&contribution, applied.Observed)}
	former := contribution.Record()
	former.Name = "former"
	waiting := plan.Node{ID: "q", Kind: configMap, External: true, Waits: []plan.Wait{{Node: "q", Reason: plan.WaitingForExternal, On: "ConfigMap y"}}}
	recorded := []v1alpha1.Contribution{former, contribution.Record()}

	for name, tc := range map[string]struct {
		reason string
		nodes  []plan.Node
		known  plan.Contributed
		want   []v1alpha1.Contribution
	}{
		"The object of another name":     {"the node has another object now", []plan.Node{applied}, known, recorded[:1]},
		"All of a node that is gone":     {"nothing contributes them", nil, nil, recorded},
		"None before the next are there": {"else the fields would be missing for a moment", []plan.Node{applied}, nil, nil},
		"None while a node waits":        {"it may still make them", []plan.Node{applied, waiting}, known, nil},
		"All of a node that is left out": {"nothing contributes them", []plan.Node{{ID: "p", SkipMessage: "includeWhen is false"}}, nil, recorded},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.Compute(plan.Desired{Nodes: tc.nodes}, plan.Facts{Instance: instance(), Now: now}, plan.History{Contributed: tc.known}, owner, v1alpha1.ChildManager)
			got := p.Unwanted(recorded)
			if len(got) != len(tc.want) || len(got) > 0 && got[0] != tc.want[0] {
				t.Errorf("%s: got %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestFieldsAreTakenOverFromFormerNodesOnly(t *testing.T) {
	nodes := []plan.Node{
		contributes("p", "x", ""), contributes("moved", "y", ""), contributes("toStatus", "x", plan.StatusSubresource),
		{ID: "pending", Waits: []plan.Wait{{Node: "pending"}}}, {ID: "skipped", SkipMessage: "includeWhen is false"},
	}
	contribution := plan.Contribution{Manager: as("new"), Object: contributes("new", "x", "").Object}
	for manager, want := range map[string]bool{
		as("gone"): true, as("skipped"): true, as("moved"): true, as("toStatus"): true, as("p"): false, as("pending"): false, "kubectl": false, "kro-graphengine.patch.000000000000.000000000000": false,
	} {
		if got := contribution.MayTakeOver(manager, nodes, owner); got != want {
			t.Errorf("from %s: %t", manager, got)
		}
	}
}
