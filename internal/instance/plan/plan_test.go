package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestCompute(t *testing.T) {
	labelled := rendered("labelled")
	labelled.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: owner.ID()})
	labelled.SetUID("uid-labelled")
	strange := stored(rendered("strange"), "former", 0)
	strange.SetAnnotations(nil)
	strange.SetLabels(map[string]string{v1alpha1.NodeIDLabel: "former", v1alpha1.ApplySetPartOfLabel: "applyset-of-somebody-else"})
	waiting := plan.Node{ID: "b", Kind: configMap, Waits: []plan.Wait{{Node: "b", Reason: plan.WaitingForField, On: "a.status.id"}}}

	cases := map[string]struct {
		reason    string
		nodes     []plan.Node
		facts     plan.Facts
		tolerated plan.Ungranted
		want      []string
		prune     []string
	}{
		"A missing object is created": {
			reason: "the node's object is known and does not exist",
			nodes:  []plan.Node{wants("a", 0, "x")},
			want:   []string{"a: Create"},
		},
		"A record of the controllers is refused": {
			reason: "a revision names the account of its content",
			nodes: []plan.Node{func() plan.Node {
				n := wants("a", 0, "x")
				n.Kind = schema.GroupVersionKind{Group: "internal.kro.run", Version: "v1alpha1", Kind: "GraphRevision"}
				n.Object.SetGroupVersionKind(n.Kind)
				return n
			}()},
			want: []string{"a: Wait Rejected: GraphRevision objects of internal.kro.run are records of the controllers, which no instance can consist of"},
		},
		"An unchanged object is kept": {
			reason: "nothing changed, so nothing is written",
			nodes:  []plan.Node{has(wants("a", 0, "x"))},
			want:   []string{"a: Keep"},
		},
		"An object that a Graph of kro's applies is not changed": {
			reason: "the Graph owns it, even without a field in common",
			nodes: []plan.Node{has(wants("a", 0, "x"), ofGraph, func(o *unstructured.Unstructured) {
				o.SetAnnotations(map[string]string{v1alpha1.AppliedAnnotation: "another"})
			})},
			want: []string{"a: Wait NotOwned: ConfigMap prod/x already exists and belongs to a Graph of kro (field manager kro-graphengine.tmpl.0123456789ab); " +
				"it is not changed. Give one of the two another name, or have a Graph of kro (field manager kro-graphengine.tmpl.0123456789ab) release it"},
		},
		"A changed desired state is an update": {
			reason: "the digest on the object is that of the last apply",
			nodes: []plan.Node{has(wants("a", 0, "x"), func(o *unstructured.Unstructured) {
				o.SetAnnotations(map[string]string{v1alpha1.AppliedAnnotation: "another"})
			})},
			want: []string{"a: Update"},
		},
		"A change of layer is an update": {
			reason: "the layer on the object decides when it is deleted",
			nodes: []plan.Node{func() plan.Node {
				n := has(wants("a", 0, "x"))
				n.Layer = 3
				return n
			}()},
			want: []string{"a: Update"},
		},
		"A field that another manager took over is taken back": {
			reason: "drift of an owned field is corrected",
			nodes:  []plan.Node{has(wants("a", 0, "x"), lost)},
			want:   []string{"a: Correct data.a"},
		},
		"A field that the server never granted is no drift": {
			reason:    "the server prunes fields that the schema lacks; another apply changes nothing",
			nodes:     []plan.Node{has(wants("a", 0, "x"), lost)},
			tolerated: plan.Ungranted{"uid-x": object.Digest([]object.Path{"data.a"})},
			want:      []string{"a: Keep"},
		},
		"Other fields than those never granted are drift": {
			reason:    "exactly these fields are tolerated",
			nodes:     []plan.Node{has(wants("a", 0, "x"), lost)},
			tolerated: plan.Ungranted{"uid-x": object.Digest([]object.Path{"data.c"})},
			want:      []string{"a: Correct data.a"},
		},
		"An object with another UID has no ungranted fields": {
			reason:    "tolerance is for one incarnation",
			nodes:     []plan.Node{has(wants("a", 0, "x"), lost)},
			tolerated: plan.Ungranted{"uid-of-before": object.Digest([]object.Path{"data.a"})},
			want:      []string{"a: Correct data.a"},
		},
		"A terminating object is waited for": {
			reason: "the name is free only when the object is gone",
			nodes:  []plan.Node{has(wants("a", 0, "x"), dying)},
			want:   []string{"a: Wait ResourceDeleting: ConfigMap resource \"prod/x\" is being deleted; it is recreated once it is gone"},
		},
		"An external object is kept as it is": {
			reason: "it is read and never written",
			nodes:  []plan.Node{{ID: "a", Kind: configMap, External: true, Object: rendered("x"), Observed: rendered("x"), Ready: true}},
			want:   []string{"a: Keep"},
		},
		"An external object that is being deleted is no reason to wait": {
			reason: "the instance does not recreate it",
			nodes: []plan.Node{{ID: "a", Kind: configMap, External: true, Object: rendered("x"), Ready: true, Observed: func() *unstructured.Unstructured {
				o := rendered("x")
				dying(o)
				return o
			}()}},
			want: []string{"a: Keep"},
		},
		"A foreign object is not changed": {
			reason: "the obstacle of the last write still exists",
			nodes:  []plan.Node{wants("a", 0, "x")},
			facts:  plan.Facts{Problems: map[string]plan.Problem{"a": {Reason: plan.NotOwned, Message: "not ours"}}},
			want:   []string{"a: Wait NotOwned: not ours"},
		},
		"An unreadable kind delays its nodes only": {
			reason: "other nodes are applied",
			nodes:  []plan.Node{{ID: "a", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Gizmo"}}, wants("b", 0, "x")},
			facts: plan.Facts{UnreadableOwned: map[schema.GroupVersionKind]plan.Unreadable{
				{Version: "v1", Kind: "Gizmo"}: {Problem: plan.Problem{Reason: plan.WaitingForKind, Message: "unknown"}},
			}},
			want: []string{"a: Wait WaitingForKind: unknown", "b: Create"},
		},
		"A reference is readable although its kind isn't": {
			reason: "one object may be readable where the whole kind isn't",
			nodes: []plan.Node{
				{ID: "a", Kind: configMap, External: true, Object: rendered("x"), Observed: rendered("x"), Ready: true},
				wants("b", 0, "y"),
			},
			facts: plan.Facts{UnreadableOwned: map[schema.GroupVersionKind]plan.Unreadable{
				configMap: {Problem: plan.Problem{Reason: plan.Forbidden, Message: "list configmaps"}},
			}},
			want: []string{"a: Keep", "b: Wait Forbidden: list configmaps"},
		},
		"Two nodes can't have one object": {
			reason: "they would overwrite each other, and which of them should win isn't known",
			nodes:  []plan.Node{wants("a", 0, "x"), wants("b", 0, "x"), wants("c", 0, "y")},
			want: []string{
				"a: Wait Rejected: renders ConfigMap prod/x, which node b renders too",
				"b: Wait Rejected: renders ConfigMap prod/x, which node a renders too", "c: Create",
			},
		},
		"Three nodes can't have one object": {
			reason: "each message names the others",
			nodes:  []plan.Node{wants("a", 0, "x"), wants("b", 0, "x"), wants("c", 0, "x")},
			want: []string{
				"a: Wait Rejected: renders ConfigMap prod/x, which nodes b, c render too",
				"b: Wait Rejected: renders ConfigMap prod/x, which nodes a, c render too",
				"c: Wait Rejected: renders ConfigMap prod/x, which nodes a, b render too",
			},
		},
		"A name that may come from a Secret is redacted": {
			reason: "a reader of the instance may not be allowed to read the Secret",
			nodes: []plan.Node{func() plan.Node {
				n := wants("a", 0, "hunter2")
				n.Sensitive = true
				return n
			}(), wants("b", 0, "hunter2")},
			want: []string{
				"a: Wait Rejected: renders a ConfigMap (name redacted: it may come from a Secret), which node b renders too",
				"b: Wait Rejected: renders a ConfigMap (name redacted: it may come from a Secret), which node a renders too",
			},
		},
		"An existing object of duplicate nodes is not pruned": {
			reason: "a node still renders it",
			nodes:  []plan.Node{has(wants("a", 0, "x")), wants("b", 0, "x")},
			want: []string{
				"a: Wait Rejected: renders ConfigMap prod/x, which node b renders too",
				"b: Wait Rejected: renders ConfigMap prod/x, which node a renders too",
			},
		},
		"A deferred node counts for duplicates": {
			reason: "the other node must not be applied while it waits",
			nodes:  []plan.Node{wants("a", 0, "x"), wants("b", 0, "x")},
			facts:  plan.Facts{Problems: map[string]plan.Problem{"a": {Reason: plan.Unavailable, Message: "later"}}},
			want: []string{
				"a: Wait Rejected: renders ConfigMap prod/x, which node b renders too",
				"b: Wait Rejected: renders ConfigMap prod/x, which node a renders too",
			},
		},
		"Objects of no node are pruned when all nodes are applied": {
			reason: "last layer first, then by name",
			nodes:  []plan.Node{has(wants("a", 0, "x"))},
			facts: plan.Facts{Owned: owned(has(wants("a", 0, "x")).Observed,
				stored(rendered("low"), "former", 0), stored(rendered("high2"), "former", 7), stored(rendered("high1"), "other", 7))},
			want:  []string{"a: Keep"},
			prune: []string{"high1", "high2", "low"},
		},
		"An object with a former name is pruned when the new one exists": {
			reason: "the node has one object",
			nodes:  []plan.Node{has(wants("a", 0, "new"))},
			facts:  plan.Facts{Owned: owned(has(wants("a", 0, "new")).Observed, stored(rendered("old"), "a", 0))},
			want:   []string{"a: Keep"},
			prune:  []string{"old"},
		},
		"Nothing is pruned while an object is to be created": {
			reason: "the former object stays until the new one exists",
			nodes:  []plan.Node{wants("a", 0, "new")},
			facts:  plan.Facts{Owned: owned(stored(rendered("old"), "a", 0), stored(rendered("former"), "former", 0))},
			want:   []string{"a: Create"},
		},
		"Nothing is pruned while a node can't be rendered": {
			reason: "the node may still render its object",
			nodes:  []plan.Node{has(wants("a", 0, "x")), waiting},
			facts:  plan.Facts{Owned: owned(has(wants("a", 0, "x")).Observed, stored(rendered("y"), "b", 1), stored(rendered("former"), "former", 0))},
			want:   []string{"a: Keep", "b: Wait WaitingForField: b waits for unresolved a.status.id, since 2026-08-01T12:00:00Z, 1 attempt"},
		},
		"Objects of a skipped node are pruned": {
			reason: "includeWhen is false",
			nodes:  []plan.Node{{ID: "a", Kind: configMap, SkipMessage: "includeWhen is false"}},
			facts:  plan.Facts{Owned: owned(stored(rendered("x"), "a", 0))},
			want:   []string{"a: Skip : includeWhen is false"},
			prune:  []string{"x"},
		},
		"An object that is not ready doesn't delay pruning": {
			reason: "all desired objects exist",
			nodes: []plan.Node{func() plan.Node {
				n := has(wants("a", 0, "x"))
				n.Ready, n.Unready = false, plan.Problem{Reason: plan.NotReady, Message: "0 of 1"}
				return n
			}()},
			facts: plan.Facts{Owned: owned(stored(rendered("y"), "former", 0))},
			want:  []string{"a: Keep"},
			prune: []string{"y"},
		},
		"An object that has only the label is never pruned": {
			reason: "whoever may write labels can copy one",
			facts:  plan.Facts{Owned: owned(labelled, stored(rendered("y"), "former", 0))},
			prune:  []string{"y"},
		},
		"An object of another ApplySet is never pruned": {
			reason: "a cache may be late; the object decides",
			facts:  plan.Facts{Owned: owned(strange)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now, tc.facts.Instance = now, instance()
			got := plan.Compute(plan.Desired{Nodes: tc.nodes}, tc.facts, plan.History{Ungranted: tc.tolerated}, owner, v1alpha1.ChildManager)
			if diff := cmp.Diff(tc.want, summary(got)); diff != "" {
				t.Errorf("%s: steps (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.prune, names(got.Prune)); diff != "" {
				t.Errorf("%s: prune (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// summary is a line for each step.
func summary(p plan.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		line := fmt.Sprintf("%s: %s", s.Node, s.Action)
		for _, path := range s.LostFields {
			if s.Action == plan.Correct {
				line += " " + string(path)
			}
		}
		if s.Problem.Message != "" {
			line += fmt.Sprintf(" %s: %s", s.Problem.Reason, s.Problem.Message)
		}
		out = append(out, line)
	}
	return out
}

func TestComputeDoesNotChangeItsInput(t *testing.T) {
	node := has(wants("a", 0, "x"))
	before := node.Object.DeepCopy()
	plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, plan.History{}, owner, v1alpha1.ChildManager)
	if diff := cmp.Diff(before, node.Object); diff != "" {
		t.Errorf("what is shared with caches must not change:\n%s", diff)
	}
}

func TestWaitsOfOneNode(t *testing.T) {
	node := plan.Node{ID: "b", Kind: configMap, Waits: []plan.Wait{
		{Node: "b", Reason: plan.WaitingForField, On: "a.x"},
		{Node: "b", Reason: plan.WaitingForField, On: "a.y", Timeout: time.Minute},
	}}
	facts := plan.Facts{Instance: instance(), Now: now, Waits: map[plan.WaitKey]time.Time{{Node: "b", On: "a.y"}: now.Add(-time.Minute)}}
	got := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, facts, plan.History{}, owner, v1alpha1.ChildManager).Steps[0]
	if got.Problem.Reason != plan.WaitTimeout {
		t.Errorf("the worst names the reason: %s", got.Problem.Reason)
	}
	if !got.Waits[0].Since.Equal(now) || !got.Waits[1].Since.Equal(now.Add(-time.Minute)) {
		t.Errorf("a wait is as old as the facts know, or new: %v", got.Waits)
	}
	for _, w := range node.Waits {
		if !strings.Contains(got.Problem.Message, w.On) {
			t.Errorf("%q doesn't tell of %s", got.Problem.Message, w.On)
		}
	}
}

func TestObject(t *testing.T) {
	of := func(o *unstructured.Unstructured, gvk schema.GroupVersionKind) *unstructured.Unstructured {
		o = o.DeepCopy()
		o.SetGroupVersionKind(gvk)
		return o
	}
	secretKind := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	older := schema.GroupVersionKind{Version: "v1beta1", Kind: "ConfigMap"}
	mine, other := stored(rendered("x"), "a", 0), rendered("z")
	secret, asOlder := of(mine, secretKind), of(mine, older)
	facts := plan.Facts{Instance: instance(), Owned: map[string][]*unstructured.Unstructured{
		"a": {mine, asOlder, secret}, "b": {other}, "c": {rendered("c1"), rendered("c2")},
	}}
	cases := map[string]struct {
		node string
		kind schema.GroupVersionKind
		name string
		want *unstructured.Unstructured
	}{
		"A node's object is found by kind and name":               {"a", configMap, "x", mine},
		"An object of another kind is another object":             {"a", secretKind, "x", secret},
		"An object of another version is converted to the node's": {"a", older, "x", asOlder},
		"Another node's object isn't the node's":                  {"a", configMap, "z", nil},
		"A node without a name has the only object of the kind":   {"a", configMap, "", mine},
		"A node without a name has none of several objects":       {"c", configMap, "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := facts.SoleObject(tc.node, tc.kind)
			if tc.name != "" {
				got = facts.Object(tc.node, tc.kind, "prod", tc.name)
			}
			if got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

func TestInitialReadTimeout(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	unreadable := func(reason plan.Reason, ago time.Duration) plan.Unreadable {
		return plan.Unreadable{Problem: plan.Problem{Reason: reason}, Since: now.Add(-ago)}
	}
	gizmo := schema.GroupVersionKind{Version: "v1", Kind: "Gizmo"}
	external := func(b plan.Unreadable) plan.Facts {
		return plan.Facts{External: map[plan.Need]plan.Lookup{{Kind: gizmo, Name: "x"}: {Unreadable: &b}, {Kind: gizmo, Name: "y"}: {}}}
	}
	own := func(b ...plan.Unreadable) plan.Facts {
		f := plan.Facts{UnreadableOwned: map[schema.GroupVersionKind]plan.Unreadable{}}
		for i, one := range b {
			f.UnreadableOwned[schema.GroupVersionKind{Version: fmt.Sprint("v", i), Kind: "Gizmo"}] = one
		}
		return f
	}
	cases := map[string]struct {
		facts plan.Facts
		want  time.Duration
	}{
		"Everything is read":                                    {plan.Facts{}, 0},
		"A first list is waited for":                            {own(unreadable(plan.Syncing, time.Second)), time.Second},
		"The last first list counts":                            {own(unreadable(plan.Syncing, time.Second), unreadable(plan.Syncing, 0)), 2 * time.Second},
		"A first list that takes long is not waited for":        {own(unreadable(plan.Syncing, time.Minute)), 0},
		"An unreadable kind is not waited for":                  {own(unreadable(plan.Forbidden, 0)), 0},
		"A reference that is being looked up is waited for":     {external(unreadable(plan.Syncing, time.Second)), time.Second},
		"A reference that can't be looked up is not waited for": {external(unreadable(plan.WaitingForKind, 0)), 0},
	}
	for name, tc := range cases {
		if got := max(tc.facts.InitialReadTimeout(now, 2*time.Second), 0); got != tc.want {
			t.Errorf("%s: want %s, got %s", name, tc.want, got)
		}
	}
}

func TestNodesThatRenderTheSameObjectAreNamed(t *testing.T) {
	for n, want := range map[int]string{
		2: "renders ConfigMap prod/x, which node n1 renders too",
		3: "renders ConfigMap prod/x, which nodes n1, n2 render too",
		6: "renders ConfigMap prod/x, which nodes n1, n2, n3, n4, n5 render too",
		8: "renders ConfigMap prod/x, which nodes n1, n2, n3, n4, n5 and 2 more render too",
	} {
		var nodes []plan.Node
		for i := range n {
			nodes = append(nodes, wants(fmt.Sprint("n", i), 0, "x"))
		}
		p := plan.Compute(plan.Desired{Nodes: nodes}, plan.Facts{Instance: instance(), Now: now}, plan.History{}, owner, v1alpha1.ChildManager)
		if step := p.Steps[0]; step.Action != plan.Defer || step.Problem.Message != want {
			t.Errorf("the first of %d: %s, %s", n, step.Action, step.Problem.Message)
		}
	}
}
