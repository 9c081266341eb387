package graph_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// world is an instance and the changes of its cluster: a list of passes, each with the
// changes before it. Between two passes all objects that the first applied exist, as in an
// API server, and those that it pruned are gone.
type world struct {
	Instance map[string]any
	// Given are objects that the instance owns from the start.
	Given []struct {
		Node   string
		Object map[string]any
	}
	Passes []change
}

// change is what happens before a pass.
type change struct {
	// After is how much time goes by.
	After metav1.Duration
	// Spec replaces the instance's spec.
	Spec map[string]any
	// Labels and Annotations replace those of the instance.
	Labels, Annotations map[string]string
	// Status is the new status of the objects of nodes, and Generation their new generation.
	Status     map[string]map[string]any
	Generation map[string]int64
	// Deleting are nodes whose objects are being deleted.
	Deleting []string
	// External are all existing external objects.
	External []map[string]any
	// Blind has the kinds that cannot be read in this pass, and Problems the error of each
	// node's last write.
	Blind    map[string]plan.Problem
	Problems map[string]plan.Problem
}

var began = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// runPasses runs the passes of the world and describes each.
func runPasses(t *testing.T, g *graph.Graph, d object.Definition, text string) []string {
	var w world
	decode(t, text, &w)
	instance := &unstructured.Unstructured{Object: normal(t, w.Instance)}
	instance.SetGroupVersionKind(g.Kind)
	owner := inventory.OwnerOf(instance, d, "v1.2.3").Recognizing(signing.Keys(), instance, time.Time{})
	facts := plan.Facts{
		Instance: instance, Now: began,
		Owned:    map[string][]*unstructured.Unstructured{},
		External: map[plan.Need]plan.Lookup{},
		Waits:    map[plan.WaitKey]time.Time{},
	}
	for _, given := range w.Given {
		o := &unstructured.Unstructured{Object: normal(t, given.Object)}
		o.SetUID(types.UID("given/" + o.GetName()))
		owner.Mark(o, inventory.Place{Node: given.Node})
		facts.Owned[given.Node] = append(facts.Owned[given.Node], o)
	}
	var out []string
	for _, c := range w.Passes {
		c.happen(t, &facts)
		desired := composeWithNeeds(t, g, &facts, c.External)
		p := plan.Compute(desired, facts, plan.History{}, owner, v1alpha1.ChildManager)
		s := plan.Summarize(p, facts.Now)
		out = append(out, describePass(t, desired, p, s, facts.Now))
		settle(&facts, p, s, desired)
	}
	return out
}

// happen changes the facts before a pass.
func (c change) happen(t *testing.T, facts *plan.Facts) {
	facts.Now = facts.Now.Add(c.After.Duration)
	facts.Problems = c.Problems
	facts.UnreadableOwned = map[schema.GroupVersionKind]plan.Unreadable{}
	for name, problem := range c.Blind {
		i := strings.LastIndex(name, "/")
		facts.UnreadableOwned[schema.FromAPIVersionAndKind(name[:i], name[i+1:])] = plan.Unreadable{Problem: problem}
	}
	facts.Instance = facts.Instance.DeepCopy()
	if c.Spec != nil {
		facts.Instance.Object["spec"] = normal(t, c.Spec)
	}
	if c.Labels != nil {
		facts.Instance.SetLabels(c.Labels)
	}
	if c.Annotations != nil {
		facts.Instance.SetAnnotations(c.Annotations)
	}
	for node, owned := range facts.Owned {
		for i := range owned {
			owned[i] = owned[i].DeepCopy()
			for _, id := range []string{node, inventory.NodeID(owned[i], facts.Instance.GetNamespace())} {
				if status, ok := c.Status[id]; ok {
					owned[i].Object["status"] = normal(t, status)
				}
			}
			if generation, ok := c.Generation[node]; ok {
				owned[i].SetGeneration(generation)
			}
			if slices.Contains(c.Deleting, inventory.NodeID(owned[i], facts.Instance.GetNamespace())) {
				owned[i].SetDeletionTimestamp(&metav1.Time{Time: facts.Now})
			}
		}
	}
}

// composeWithNeeds composes until nothing new is asked for.
func composeWithNeeds(t *testing.T, g *graph.Graph, facts *plan.Facts, external []map[string]any) plan.Desired {
	facts.External = map[plan.Need]plan.Lookup{}
	for {
		desired, fresh := g.Compose(*facts), false
		for _, need := range desired.Needs {
			if _, looked := facts.External[need]; looked {
				continue
			}
			fresh = true
			facts.External[need] = plan.Lookup{}
			if blind, ok := facts.UnreadableOwned[need.Kind]; ok {
				facts.External[need] = plan.Lookup{Unreadable: &blind}
				continue
			}
			for _, o := range external {
				found := &unstructured.Unstructured{Object: normal(t, o)}
				if need.Multiple && matches(t, need, found) {
					look := facts.External[need]
					look.Objects = append(look.Objects, found)
					facts.External[need] = look
				}
				if (plan.Need{Kind: found.GroupVersionKind(), Namespace: found.GetNamespace(), Name: found.GetName()}) == need {
					facts.External[need] = plan.Lookup{Object: found}
				}
			}
		}
		if !fresh {
			return desired
		}
	}
}

// matches says whether an object is one of those that are needed.
func matches(t *testing.T, need plan.Need, o *unstructured.Unstructured) bool {
	selector, err := labels.Parse(need.Selector)
	if err != nil {
		t.Fatal(err)
	}
	return need.Kind == o.GroupVersionKind() && (need.Namespace == "" || need.Namespace == o.GetNamespace()) && selector.Matches(labels.Set(o.GetLabels()))
}

// settle makes the plan's outcome the facts of the next pass.
func settle(facts *plan.Facts, p plan.Plan, s plan.Summary, desired plan.Desired) {
	for _, step := range p.Steps {
		if !step.Action.Applies() {
			continue
		}
		stored := granted(step.Object)
		stored.SetUID(types.UID(step.Node + "/" + stored.GetName()))
		stored.SetGeneration(1)
		for node, owned := range facts.Owned {
			facts.Owned[node] = slices.DeleteFunc(owned, func(o *unstructured.Unstructured) bool {
				if step.Current == nil || o.GetUID() != step.Current.GetUID() {
					return false
				}
				stored.SetGeneration(o.GetGeneration() + 1)
				stored.SetUID(o.GetUID())
				if status, ok := o.Object["status"]; ok {
					stored.Object["status"] = status
				}
				return true
			})
		}
		node := inventory.Node(stored)
		facts.Owned[node] = append(facts.Owned[node], stored)
	}
	for _, gone := range p.Prune {
		for node, owned := range facts.Owned {
			facts.Owned[node] = slices.DeleteFunc(owned, func(o *unstructured.Unstructured) bool { return o.GetUID() == gone.GetUID() })
		}
	}
	facts.Waits = map[plan.WaitKey]time.Time{}
	for _, w := range s.Waits {
		facts.Waits[w.Key()] = w.Since
	}
	facts.Instance = facts.Instance.DeepCopy()
	facts.Instance.Object["status"] = maps.Clone(desired.Status)
}

// granted is an object of which the engine's manager owns all that it applied.
func granted(applied *unstructured.Unstructured) *unstructured.Unstructured {
	o := applied.DeepCopy()
	raw, err := json.Marshal(managedFieldsOf(o.Object))
	if err != nil {
		panic(err)
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
	}})
	return o
}

// managedFieldsOf is the FieldsV1 of a value whose lists are all owned as a whole.
func managedFieldsOf(value any) map[string]any {
	out := map[string]any{}
	if m, ok := value.(map[string]any); ok {
		for key, v := range m {
			out["f:"+key] = managedFieldsOf(v)
		}
	}
	return out
}

// normal is a value as a cache holds it: its integers are int64.
func normal(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
