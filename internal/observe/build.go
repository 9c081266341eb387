package observe

import (
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Build returns the tree of the root, which must not be nil.
func Build(w ClusterState, now time.Time) Node {
	return w.build(w.Root, false, map[string]bool{}, now)
}

// BuildAll returns the trees of all roots.
func BuildAll(w ClusterState, now time.Time) []Node {
	out := make([]Node, len(w.Roots))
	for i, root := range w.Roots {
		out[i] = w.build(root, false, map[string]bool{}, now)
	}
	return out
}

// build returns the tree of an object. Above holds the instances above it, so that labels
// that form a cycle do not recurse forever.
func (w ClusterState) build(o *unstructured.Unstructured, parentReady bool, above map[string]bool, now time.Time) Node {
	n := describe(o, parentReady)
	w.addServing(&n, o)
	for _, instance := range w.instances(o) {
		below := w.build(instance, false, above, now)
		below.id = below.object().String()
		n.Children = append(n.Children, below)
	}
	id := inventory.SetOf(o)
	if id == "" || above[id] {
		return n
	}
	above[id] = true
	defer delete(above, id)
	reports, removals := readResourceReports(o, now), readRemovals(o, n)
	seen := map[string]bool{}
	for _, child := range w.children(o) {
		below := w.build(child, n.Ready == True, above, now)
		below.id = inventory.NodeID(child, o.GetNamespace())
		reports.addTo(&below)
		w.addContest(&below, o, child)
		removals.addTo(&below, child)
		n.Children = append(n.Children, below)
		seen[below.Node] = true
	}
	n.Children = append(n.Children, removals.unseen()...)
	if n.Deleted == nil {
		n.Children = append(n.Children, reports.missing()...)
		n.Children = append(n.Children, skippedOf(o, seen)...)
		n.Children = w.withVariables(o, n.Children)
	}
	return n
}

// withoutStatus is a message without the status that kstatus gives it.
func withoutStatus(message string) string {
	for _, s := range []status.Status{status.InProgressStatus, status.FailedStatus} {
		message = strings.TrimPrefix(message, string(s)+": ")
	}
	return message
}

// describe returns a node from what an object's own fields say. Where these say nothing of
// readiness, a ready parent implies a ready child: a parent is ready when all children are.
func describe(o *unstructured.Unstructured, parentReady bool) Node {
	n := Node{
		Node: inventory.Node(o), Exists: true, Instance: inventory.SetOf(o) != "",
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
	}
	if item := inventory.ItemOf(o); item != nil {
		n.Index = &item.Index
	}
	if at := o.GetCreationTimestamp(); !at.IsZero() {
		n.Created = utc(at.Time)
	}
	n.Ready, n.Reason, n.Message = readiness(o, n.Instance)
	if kind, ok := condition.Read(o).Get(v1alpha1.DefinitionKindReady); ok && n.Reason == v1alpha1.ReasonKindNotReady && kind.Status != condition.True {
		n.Message += ". KindReady: " + kind.Reason + ": " + kind.Message // Ready refers to it
	}
	if problem := health.SyncProblem(o); problem != "" && !strings.Contains(problem, withoutStatus(n.Message)) {
		n.Message += "; " + problem
	} else if problem != "" {
		n.Message = problem
	}
	if synced, ok := condition.Read(o).Get(health.Synced); ok {
		n.isManaged = !n.Instance
		switch {
		case synced.Reason == resource.Contested:
			n.externalContest = &synced
		case n.isManaged && synced.Status == condition.False:
			n.unsynced = &synced
		}
		_, annotated := o.GetAnnotations()[resource.PausedAnnotation]
		n.paused = annotated && synced.Reason == resource.ReconcilePaused
		n.composeFailed = n.Instance && synced.Status == condition.False && strings.HasPrefix(synced.Message, "cannot compose resources: ")
		if n.composeFailed && n.Ready == False {
			n.Message = health.SyncProblem(o) // the message of Ready is of the resources that were composed before
		}
	}
	if n.Ready == NotReported && parentReady {
		n.Ready = True
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		n.Deleted, n.Finalizers = utc(at.Time), o.GetFinalizers()
		if n.Reason == v1alpha1.ReasonInstancesRemain || n.Reason == v1alpha1.ReasonInstancesUnknown {
			n.remaining = n.Message
		}
		n.Ready, n.Reason = False, string(report.Deleting)
		n.Deletion = report.ReadDeletion(o)
		if slices.Equal(n.Finalizers, []string{report.ExternalFinalizer}) {
			message, inProgress := plan.ExternalDeletion(o)
			n.externalDeletion = &report.BlockedObject{Object: n.object(), Reason: report.ExternalDeletion, Message: message, InProgress: inProgress,
				Since: report.At(*n.Deleted)}
		}
	}
	if n.Instance {
		n.definition = sourceOf(o)
		n.Pruning = report.ReadPruning(o)
		n.forceDeleteDenied = !inventory.DefaultsOf(o).Overrides.AllowsForceDelete()
	}
	return n
}

func utc(t time.Time) *time.Time {
	t = t.UTC()
	return &t
}

// skippedOf returns the nodes that an instance skips and of which no object is left.
func skippedOf(instance *unstructured.Unstructured, seen map[string]bool) []Node {
	var out []Node
	for _, s := range report.ReadSkipped(instance) {
		if seen[s.Node] {
			continue
		}
		because := plan.SkipCause{By: s.By, Condition: s.Condition, Inputs: s.Inputs}.String()
		if s.By != s.Node {
			because = "because of " + s.By + ": " + because
		}
		out = append(out, Node{Node: s.Node, Skipped: true, Ready: NotReported, Reason: "Skipped", Message: because})
	}
	return out
}
