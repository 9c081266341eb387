package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/protection/lifecycle"
)

// asUsage makes a Usage of a child: of and by are names of ConfigMaps, or of the instance
// as "main"; nobody uses what has no by.
func asUsage(of, by string) change {
	party := func(name string) map[string]any {
		out := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "resourceRef": map[string]any{"name": name}}
		if name == owner.Name {
			out["apiVersion"], out["kind"] = owner.Kind.GroupVersion().String(), owner.Kind.Kind
		}
		return out
	}
	return func(o *unstructured.Unstructured) {
		o.SetGroupVersionKind(usage.Kinds[0])
		o.SetFinalizers([]string{v1beta1.Finalizer})
		spec := map[string]any{"of": party(of), "reason": "because"}
		if by != "" {
			spec["by"] = party(by)
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: by, UID: types.UID("uid-" + by)}})
		}
		o.Object["spec"] = spec
	}
}

// asUsageOfUsage makes a Usage without user of another Usage.
func asUsageOfUsage(of string) change {
	return func(o *unstructured.Unstructured) {
		asUsage(of, "")(o)
		kind := usage.Kinds[0]
		o.Object["spec"].(map[string]any)["of"] = map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "resourceRef": map[string]any{"name": of}}
	}
}

// usesAmong are the usages of objects, as a book would tell them.
func usesAmong(objects ...*unstructured.Unstructured) map[object.Key][]usage.Usage {
	out := map[object.Key][]usage.Usage{}
	for _, o := range objects {
		u, ok := usage.Read(o)
		if !ok {
			continue
		}
		key := object.Key{Group: u.Of.Kind.Group, Kind: u.Of.Kind.Kind, Namespace: u.Of.Namespace, Name: u.Of.Name}
		out[key] = append(out[key], u)
	}
	return out
}

func TestTeardownWithUsages(t *testing.T) {
	a, b := left("a", layer(0)), left("b", layer(1))
	onA := left("b", inventory.Place{Layer: 1, DependsOn: []string{"a"}})
	onB := func(name string) *unstructured.Unstructured {
		return left(name, inventory.Place{Layer: 2, DependsOn: []string{"b"}})
	}
	uses := left("u", inventory.Place{Layer: 2, DependsOn: []string{"a", "b"}}, asUsage("a", "b"))
	alone := left("u", inventory.Place{Layer: 2, DependsOn: []string{"a"}}, asUsage("a", ""))
	elsewhere := left("u", inventory.Place{Layer: 2, DependsOn: []string{"a"}}, asUsage("a", "z"))
	going := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o = o.DeepCopy()
		dying(o)
		return o
	}
	children := func(o ...*unstructured.Unstructured) []*unstructured.Unstructured { return o }
	cases := map[string]struct {
		reason   string
		children []*unstructured.Unstructured
		others   []*unstructured.Unstructured // usages that aren't children
		instance []change
		tried    plan.DeletionHistory
		relation usage.Relation // of all usages
		unknown  string
		delete   []string
		blocked  string
	}{
		"The user is deleted first": {
			reason: "the usage requires it", children: children(a, b, uses), delete: []string{"b"},
		},
		"The usage is deleted second": {
			reason: "its user is gone", children: children(a, uses), tried: trials(plan.DeletionAttempts{}, "uid-b"), delete: []string{"u"},
		},
		"The used object is deleted last": {
			reason: "it is not in use any more", children: children(a), delete: []string{"a"},
		},
		"A stale usage is ignored": {
			reason: "another cache may be late", children: children(a), others: children(uses), tried: trials(plan.DeletionAttempts{}, "uid-b", "uid-u"),
		},
		"A used object waits for its usage": {
			reason: "the in-use label remains until the usage is gone", children: children(a, going(uses)), tried: trials(plan.DeletionAttempts{}, "uid-b", "uid-u"),
		},
		"Usages override dependencies": {
			reason: "otherwise each waits for the other", children: children(onB("a"), b, uses), delete: []string{"b"},
		},
		"A usage without user that is a child is deleted before the used object": {
			reason: "it is deleted with the instance", children: children(a, b, alone), delete: []string{"b", "u"},
		},
		"Then the used object is deleted": {
			reason: "its turn comes when its usage is gone", children: children(a, alone), delete: []string{"u"},
		},
		"A usage without user that isn't a child keeps the used object": {
			reason: "a user created the usage", children: children(a), others: children(alone), blocked: "a: in use: because (Usage prod/u); it is deleted once the usage is gone",
		},
		"A usage that keeps an object keeps no other": {
			reason: "the usage does not concern it", children: children(b, a), others: children(left("u", layer(0), asUsage("b", ""))),
			delete: []string{"a"}, blocked: "b: in use: because (Usage prod/u); it is deleted once the usage is gone",
		},
		"A usage that keeps an object keeps its dependencies": {
			reason: "the kept object depends on it", children: children(onB("a"), b), others: children(alone), blocked: "a: in use: because (Usage prod/u); it is deleted once the usage is gone",
		},
		"A user that is a child is deleted first if the usage isn't a child": {
			reason: "the usage ends with the user", children: children(a, b), others: children(uses), delete: []string{"b"},
		},
		"A usage by a foreign object is deleted at once": {
			reason: "it is deleted once the used object is gone", children: children(a, elsewhere), delete: []string{"u"},
			blocked: "a: in use by ConfigMap z: because (Usage prod/u); it is deleted once that or the usage is gone",
		},
		"A usage by a foreign object isn't reported while the used object waits": {
			reason: "the used object is reported", children: children(a, going(elsewhere)),
			blocked: "a: in use by ConfigMap z: because (Usage prod/u); it is deleted once that or the usage is gone",
		},
		"A usage of a foreign object is not deleted at once": {
			reason: "no other blocker shows it", children: children(b, going(left("u", layer(0), asUsage("y", "z")))), delete: []string{"b"},
			blocked: "u: keeps ConfigMap y for ConfigMap z; it is deleted once that is gone",
		},
		"A usage of a foreign object by a child isn't reported": {
			reason: "the child is deleted", children: children(b, going(left("u", layer(0), asUsage("y", "b")))), delete: []string{"b"},
		},
		"A usage without user that stays is reported": {
			reason: "nobody else reports it", children: children(going(left("u", layer(0), asUsage("y", "")))), tried: trials(plan.DeletionAttempts{FirstSeen: long}, "uid-u"),
			blocked: "u: held by finalizer " + v1beta1.Finalizer,
		},
		"A usage that another finalizer keeps too is held by it": {
			reason: "whoever set it must remove it", tried: trials(plan.DeletionAttempts{FirstSeen: long}, "uid-u"),
			children: children(left("u", layer(0), asUsage("y", "z"), held(v1beta1.Finalizer, "x/y"))),
			blocked:  "u: held by finalizers " + v1beta1.Finalizer + "; x/y",
		},
		"Two objects that use each other are deleted": {
			reason:   "their usages are deleted first; the last usage waits only for itself",
			children: children(a, b, left("u", layer(2), asUsage("a", "b")), left("v", layer(2), asUsage("b", "a"))), delete: []string{"u", "v"},
		},
		"Usages that protect each other are blockers": {
			reason:   "each keeps the other, and nobody may be told why otherwise",
			children: children(left("u", layer(0), asUsageOfUsage("v")), left("v", layer(0), asUsageOfUsage("u"))),
			blocked: "u: in use: because (Usage prod/v); it is deleted once the usage is gone\n" +
				"v: in use: because (Usage prod/u); it is deleted once the usage is gone",
		},
		"One of them that is left behind blocks the other still": {
			reason:   "it is there",
			children: children(left("u", layer(0), asUsageOfUsage("v")), left("v", layer(0), asUsageOfUsage("u"))),
			instance: []change{annotated("espalier.dev/force-delete", "u")},
			blocked:  "v: in use: because (Usage prod/u); it is deleted once the usage is gone",
		},
		"A usage that protects itself is a blocker": {
			reason:   "it keeps itself",
			children: children(left("u", layer(0), asUsageOfUsage("u"))),
			blocked:  "u: in use: because (Usage prod/u); it is deleted once the usage is gone",
		},
		"A usage of a usage is deleted first": {
			reason:   "it protects the other",
			children: children(left("u", layer(0), asUsageOfUsage("v")), left("v", layer(0), asUsage("y", ""))), delete: []string{"u"},
		},
		"Nothing of an instance in use is deleted": {
			reason: "its children are part of it", children: children(a), others: children(left("u", layer(0), asUsage("main", ""))), blocked: "main: in use: because (Usage prod/u); it is deleted once the usage is gone",
		},
		"An instance that uses its own child is deleted": {
			reason: "it is deleted last", children: children(a, b), others: children(left("u", layer(0), asUsage("a", "main"))), delete: []string{"b"},
		},
		"An instance that its child uses is deleted": {
			reason: "the child is deleted first", children: children(a), others: children(left("u", layer(0), asUsage("main", "a"))), delete: []string{"a"},
		},
		"While usages can't be read the label counts": {
			reason:   "the label shows that there is a usage",
			children: children(b, left("a", layer(0), func(o *unstructured.Unstructured) { labelled(o, v1beta1.InUseLabel, "true") })), unknown: "forbidden",
			delete: []string{"b"},
		},
		"The label keeps only objects that have it": {
			reason:   "nothing else is known",
			children: children(left("a", layer(0), func(o *unstructured.Unstructured) { labelled(o, v1beta1.InUseLabel, "true") })), unknown: "forbidden",
			blocked: "a: it is labeled as in use, and its usages cannot be read: forbidden",
		},
		"A usage without user protects the used object until all its dependents are gone": {
			reason: "they need the used object", children: children(a, onA, onB("c"), alone), delete: []string{"c"},
		},
		"A stale usage without user is ignored": {
			reason: "another cache may be late", children: children(a), others: children(alone), tried: trials(plan.DeletionAttempts{}, "uid-u"),
		},
		"Usages that aren't children override dependencies": {
			reason: "otherwise each waits for the other", children: children(onB("a"), b), others: children(uses), delete: []string{"b"},
		},
		"An object that uses itself is in use": {
			reason: "it is the target that its usage ends with", children: children(a, b), others: children(left("u", layer(0), asUsage("a", "a"))), delete: []string{"b"},
		},
		"A node that is gone orders nothing": {
			reason: "nothing waits for it",
			children: children(
				left("a", inventory.Place{DependsOn: []string{"gone"}}), left("m", inventory.Place{DeleteAfter: []string{"gone"}}),
				left("q", inventory.Place{DependsOn: []string{"a"}, DeleteAfter: []string{"m"}}), left("u", layer(0), asUsage("a", "")),
			),
			delete: []string{"m"},
		},
		"An instance that a child protects without user is deleted": {
			reason: "the usage is deleted with it", children: children(a, left("u", layer(0), asUsage("main", ""))), delete: []string{"a", "u"},
		},
		"A child that its instance uses waits without a blocker": {
			reason: "the usage ends, since the instance is being deleted", children: children(a), others: children(left("u", layer(0), asUsage("a", "main"))),
		},
		"A child that an instance above uses waits without a blocker": {
			reason: "the usage ends, since that instance is being deleted", children: children(a), others: children(elsewhere), relation: usage.UserIsAncestor,
		},
		"A forced object is left behind": {
			reason: "the annotation requests it", children: children(a, b), others: children(left("u", layer(0), asUsage("b", ""))),
			instance: []change{annotated("espalier.dev/force-delete", "b")}, delete: []string{"a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			usages := usesAmong(append(slices.Clone(tc.others), tc.children...)...)
			for _, of := range usages {
				for i := range of {
					of[i].Relation = tc.relation
				}
			}
			r := plan.Teardown(plan.Remaining{
				Instance: instance(tc.instance...), Children: tc.children, History: tc.tried, Now: now,
				Usages: usages, UsagesUnreadable: tc.unknown,
			})
			got := names(r.Delete)
			slices.Sort(got)
			if diff := cmp.Diff(tc.delete, got); diff != "" {
				t.Errorf("%s: deleted (-want +got):\n%s", tc.reason, diff)
			}
			var blocked []string
			for _, b := range r.Deletion.Blockers {
				blocked = append(blocked, b.Object.Name+": "+b.Message)
			}
			if got := strings.Join(blocked, "\n"); got != tc.blocked {
				t.Errorf("%s: blocked by %q, not %q", tc.reason, got, tc.blocked)
			}
		})
	}
}

func TestPruningWithUsages(t *testing.T) {
	a, b := left("a", layer(0)), left("b", layer(1))
	live := func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(nil) }
	for name, tc := range map[string]struct {
		reason   string
		children []*unstructured.Unstructured
		others   []*unstructured.Unstructured // usages that aren't children
		delete   []string
		blocked  string
	}{
		"An object that the instance uses stays": {
			"the instance is not being deleted", []*unstructured.Unstructured{a, b}, []*unstructured.Unstructured{left("u", layer(0), asUsage("a", "main"))},
			[]string{"b"}, "a: in use by Vpc main: because (Usage prod/u); it is deleted once that or the usage is gone",
		},
		"Objects that use each other are deleted": {
			"their usages end with them", []*unstructured.Unstructured{a, b, left("u", layer(2), asUsage("a", "b")), left("v", layer(2), asUsage("b", "a"))}, nil,
			[]string{"u", "v"}, "",
		},
	} {
		got := prune(plan.Remaining{Instance: instance(live), Children: tc.children, Now: now, Usages: usesAmong(append(slices.Clone(tc.others), tc.children...)...)})
		requested := names(got.Delete)
		slices.Sort(requested)
		var blocked []string
		for _, b := range got.Objects {
			blocked = append(blocked, b.Object.Name+": "+b.Message)
		}
		if diff := cmp.Diff(tc.delete, requested); diff != "" || strings.Join(blocked, "\n") != tc.blocked {
			t.Errorf("%s: %s: blocked by %q, deleted (-want +got):\n%s", name, tc.reason, blocked, diff)
		}
	}
}

func labelled(o *unstructured.Unstructured, key, value string) {
	labels := o.GetLabels()
	labels[key] = value
	o.SetLabels(labels)
}

// TestUsagesAmongChildrenNeverBlockTheirInstance draws children in any order that they
// may carry, and any usages among them, of which each is a child as well; it takes all of
// that apart, by teardown and by pruning, with usages that go as they do. What is in use
// is never asked to go, and all goes in the end.
func TestUsagesAmongChildrenNeverBlockTheirInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		children := drawChildren(t)
		if len(children) == 0 {
			return
		}
		name := rapid.Map(rapid.IntRange(0, len(children)-1), func(i int) string { return fmt.Sprint("c", i) })
		for i := range rapid.IntRange(0, 6).Draw(t, "usages") {
			by := rapid.OneOf(name, rapid.Just("")).Draw(t, "by")
			at := inventory.Place{Layer: rapid.IntRange(0, 4).Draw(t, "layer"), DependsOn: rapid.SliceOfNDistinct(name, 0, 2, rapid.ID).Draw(t, "depends on")}
			children = append(children, left(fmt.Sprint("u", i), at, asUsage(name.Draw(t, "of"), by)))
		}
		pruning := rapid.Bool().Draw(t, "prune")
		tried := plan.DeletionHistory{Children: map[types.UID]plan.DeletionAttempts{}}
		for steps := 0; len(children) > 0; steps++ {
			if steps > 200 {
				t.Fatalf("it doesn't end: %v are left", names(children))
			}
			remains := plan.Remaining{Instance: instance(), Children: children, Now: now, Usages: usesAmong(children...), History: tried}
			move := plan.Teardown(remains).RemovalStep
			if pruning {
				move = prune(remains).RemovalStep
			}
			for _, o := range move.Delete {
				if uses := remains.Usages[object.KeyOf(o)]; len(uses) > 0 {
					t.Fatalf("%s goes, and is %s", o.GetName(), uses[0])
				}
				dying(o)
				tried.Children[o.GetUID()] = plan.DeletionAttempts{AcceptedAt: now}
			}
			going := slices.DeleteFunc(goingOf(children), func(o *unstructured.Unstructured) bool { return waits(o, children) })
			if len(going) == 0 {
				t.Fatalf("%v are left and nothing is done about them", names(children))
			}
			gone := rapid.SampledFrom(going).Draw(t, "gone")
			children = slices.DeleteFunc(children, func(o *unstructured.Unstructured) bool { return o == gone })
		}
	})
}

// waits says whether a usage that is being deleted stays, as those who serve it decide.
func waits(o *unstructured.Unstructured, all []*unstructured.Unstructured) bool {
	u, ok := usage.Read(o)
	if !ok {
		return false
	}
	f := lifecycle.Facts{Usage: o, Use: u, DeletedWithOwner: true}
	for _, other := range all {
		if u.UsedBy(object.KeyOf(other)) {
			f.By.Object = other
		}
	}
	f.Circular = usage.IsCircular(u, func(r usage.Ref) []usage.Usage {
		return usesAmong(all...)[object.Key{Group: r.Kind.Group, Kind: r.Kind.Kind, Namespace: r.Namespace, Name: r.Name}]
	})
	return f.WaitsForUser()
}
