package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// A node with a contribution applies fields to an object that is not the instance's, under a field manager of its own. It
// never creates the object, nor deletes it. What the manager owns shows what was applied: the fields are applied when the
// node's desired fields change, or what its manager owns. An instance records its contributions before it applies
// them, and releases a recorded one that no node makes any more.

// Contribution is what a node contributes to an external object.
type Contribution struct {
	// Subresource is StatusSubresource, or empty for the object itself.
	Subresource string
	// Manager is the field manager of the node, and Object its fields; Compute sets both.
	Manager string
	Object  *unstructured.Unstructured
}

// StatusSubresource is the subresource of fields of the status.
const StatusSubresource = "status"

// Record is how the instance records the contribution.
func (c *Contribution) Record() v1alpha1.Contribution {
	return v1alpha1.Contribution{
		APIVersion: c.Object.GetAPIVersion(), Kind: c.Object.GetKind(), Namespace: c.Object.GetNamespace(), Name: c.Object.GetName(),
		Subresource: c.Subresource, FieldManager: c.Manager,
	}
}

// contributorPrefix begins the field managers of contributions. A part for the instance and a part for the node follow.
const contributorPrefix = "kro-graphengine.patch."

func contributorsOf(instance types.UID) string {
	return contributorPrefix + inventory.GraphManagerPart(string(instance)) + "."
}

func contributor(instance types.UID, node string) string {
	return contributorsOf(instance) + inventory.GraphManagerPart(string(instance)+"/"+node)
}

// IsContributor reports whether a managed fields entry is of a contribution of any instance.
func IsContributor(manager, operation string) bool {
	return operation == string(metav1.ManagedFieldsOperationApply) && strings.HasPrefix(manager, contributorPrefix)
}

// Contributed is, by node, what is known of the contributions of an instance.
type Contributed map[string]ContributionAnswer

// Of returns what is known of the contributions of steps.
func (c Contributed) Of(steps []Step) Contributed {
	if len(c) == 0 {
		return c
	}
	out := Contributed{}
	for _, step := range steps {
		if answer, known := c[step.Node]; known {
			out[step.Node] = answer
		}
	}
	return out
}

// ContributionAnswer is how the API server answered when a contribution was applied last.
type ContributionAnswer struct {
	// UID identifies the object, Desired is the digest of what was applied, and Owned of the fields that the manager owned
	// then.
	UID            types.UID
	Desired, Owned string
	// Refused is set if another manager has fields of the contribution.
	Refused *RefusedApply
}

// AnswerTo is the answer to a contribution that was applied.
func AnswerTo(c *Contribution, answer *unstructured.Unstructured) *ContributionAnswer {
	return &ContributionAnswer{UID: answer.GetUID(), Desired: object.Digest(c.Object.Object), Owned: digestOf(c.owned(answer))}
}

// owned are the fields that the manager of the contribution owns.
func (c *Contribution) owned(o *unstructured.Unstructured) *fieldpath.Set {
	for entry := range ownership.Entries(o) {
		if entry.Manager == c.Manager && entry.Subresource == c.Subresource {
			return entry.Fields()
		}
	}
	return &fieldpath.Set{}
}

// isApplied reports whether an object shows that it has the contribution: the manager owns the desired fields and no
// others, and they have the desired values. A value that the API server has converted does not show it.
func (c *Contribution) isApplied(o *unstructured.Unstructured, owned *fieldpath.Set) bool {
	extra := owned.Empty()
	owned.Leaves().Iterate(func(path fieldpath.Path) { extra = extra || !isIn(c.Object.Object, path) })
	return !extra && len(fieldsNotIn(owned, c.Object, o)) == 0 && !ownership.Differs(c.Object.Object, o.Object, owned)
}

// isIn reports whether a value has a field. Items of lists are not compared: a list is, as a whole.
func isIn(value any, path fieldpath.Path) bool {
	for _, element := range path {
		fields, isMap := value.(map[string]any)
		if element.FieldName == nil || !isMap {
			return element.FieldName == nil
		}
		below, has := fields[*element.FieldName]
		if !has {
			return false
		}
		value = below
	}
	return true
}

func digestOf(fields *fieldpath.Set) string { return object.Digest(ownership.Encode(fields)) }

// RefusedContribution is the answer to a step's contribution if managers have set fields of it to other values.
func RefusedContribution(step Step, fields []string, managers string) *ContributionAnswer {
	text := "fields"
	if len(fields) > 0 {
		text = listPaths(fields)
	}
	return &ContributionAnswer{UID: step.Current.GetUID(), Desired: object.Digest(step.Contribution.Object.Object), Refused: &RefusedApply{
		LiveDigest: ContentDigest(step.Current),
		Problem: Problem{Reason: FieldConflict, Message: fmt.Sprintf("%s of %s is set by %s to another value; nothing of the patch is applied until that manager "+
			"releases or changes it", text, object.KeyOf(step.Current), managers)},
	}}
}

// contribute decides about a node with a contribution whose object exists. A field that another manager keeps changing is
// contested, as a field of an own object.
func contribute(step Step, node Node, facts Facts, history History, owner inventory.Owner) Step {
	c := *node.Contribution
	c.Manager, c.Object = contributor(owner.UID, node.origin()), node.Object
	step.Contribution = &c
	last, owned := history.Contributed[node.ID], c.owned(node.Observed)
	problem, failed := facts.Problems[node.ID]
	switch {
	case failed:
		step.Action, step.Problem = Defer, problem
	case node.Observed.GetDeletionTimestamp() != nil:
		step.Action, step.Problem = Defer, Problem{Reason: ResourceDeleting, Message: object.KeyOf(node.Observed).String() + " is being deleted"}
	case last.UID != node.Observed.GetUID(), last.Desired != object.Digest(node.Object.Object):
		if !c.isApplied(node.Observed, owned) {
			step.Action = Contribute
		}
	case last.Refused != nil:
		if step.Action = Contribute; last.Refused.LiveDigest == ContentDigest(node.Observed) {
			step.Action, step.Problem = Defer, last.Refused.Problem
		}
	case last.Owned != digestOf(owned):
		step.Action, step.LostFields = Contribute, fieldsNotIn(owned, node.Object, node.Observed)
		deferContested(&step, history.Contests, facts.Now)
	default:
		deferRecentlyContested(&step, history.Contests, facts.Now)
	}
	return step
}

// contributeApart reports whether nodes contribute to different subresources of an object.
func contributeApart(nodes []Node, which []int) bool {
	seen := map[string]bool{}
	for _, i := range which {
		c := nodes[i].Contribution
		if c == nil || seen[c.Subresource] {
			return false
		}
		seen[c.Subresource] = true
	}
	return true
}

// Unrecorded lists the contributions of a plan that an instance has not recorded.
func (p Plan) Unrecorded(recorded []v1alpha1.Contribution) (out []v1alpha1.Contribution) {
	known := map[v1alpha1.Contribution]bool{}
	for _, r := range recorded {
		known[r] = true
	}
	for _, step := range p.Steps {
		if step.Action == Contribute && !known[step.Contribution.Record()] {
			out = append(out, step.Contribution.Record())
		}
	}
	return out
}

// Unwanted lists the recorded contributions that no node makes. It is empty until the plan is settled: a node that can't
// be rendered may still make them.
func (p Plan) Unwanted(recorded []v1alpha1.Contribution) (out []v1alpha1.Contribution) {
	if !p.Settled {
		return nil
	}
	wanted := map[v1alpha1.Contribution]bool{}
	for _, step := range p.Steps {
		if step.Contribution != nil {
			wanted[step.Contribution.Record()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(recorded), func(r v1alpha1.Contribution) bool { return wanted[r] })
}

// MayTakeOver reports whether a contribution takes a field over from a manager: one of a node that the instance does not
// have any more, or that contributes to something else now. One that can't be rendered may still contribute to the object.
func (c *Contribution) MayTakeOver(manager string, nodes []Node, owner inventory.Owner) bool {
	return MayRelease(manager, owner) && !slices.ContainsFunc(nodes, func(n Node) bool {
		return n.SkipMessage == "" && contributor(owner.UID, n.origin()) == manager && !n.contributesElsewhere(c)
	})
}

func (n Node) contributesElsewhere(than *Contribution) bool {
	return n.Object != nil && n.Contribution != nil &&
		(object.KeyOf(n.Object) != object.KeyOf(than.Object) || n.Contribution.Subresource != than.Subresource)
}

// MayRelease reports whether the fields of a manager are contributions of the instance: a record could name another one.
func MayRelease(manager string, owner inventory.Owner) bool {
	return strings.HasPrefix(manager, contributorsOf(owner.UID))
}
