package instance

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// It lasts for this reconcile and the next ones.
func (m *memory) setObstacle(node string, by *unstructured.Unstructured, problem plan.Problem, refused *plan.RefusedApply) {
	need := plan.Need{Kind: by.GroupVersionKind(), Namespace: by.GetNamespace(), Name: by.GetName()}
	if m.obstacles == nil {
		m.obstacles = map[string]plan.Obstacle{}
	}
	m.obstacles[node] = plan.Obstacle{Need: need, Problem: problem, Writers: writersOf(by), Refused: refused}
}

// Cleared obstacles are dropped.
func (r *Reconciler) observeObstacles(s *subject, o *observation, before []plan.Node, first bool) {
	for node, by := range s.memory.obstacles {
		found, state := s.lease.Object(by.Need.Kind, by.Need.Namespace, by.Need.Name)
		synced := state.Phase == watch.Synced
		// An account without permission for namespaces cannot see one come: the write is tried again.
		isBlind := by.IsNamespace() && state.Reason == watch.Forbidden && first && r.Definition.Namespace != ""
		if isBlind {
			s.requeue(blindObstacleRetry)
		}
		if isBlind || by.IsCleared(found, synced, s.owner) {
			delete(s.memory.obstacles, node)
			delete(o.facts.Problems, node)
			continue
		}
		switch {
		case by.IsNamespace() && synced:
			by.Problem = plan.MissingNamespaceProblem(by.Need.Name, found != nil)
		case !by.IsNamespace() && found != nil && by.Refused == nil:
			by.Problem = r.nameConflict(s, before, node, found, by.Writers)
		}
		s.memory.obstacles[node] = by
		o.facts.Problems[node] = by.Problem
	}
}

// A write into a namespace that did not exist is tried again after this time if the account is not allowed to read the
// namespace.
const blindObstacleRetry = 30 * time.Second

// It drops the obstacles of nodes that don't exist any more, because items of collections come and go, and objects that
// their node may adopt by now: the definition says so, or the object has lost its owner.
func (s *subject) forgetObstacles(o *observation) {
	for node, by := range s.memory.obstacles {
		i := slices.IndexFunc(o.desired.Nodes, func(n plan.Node) bool { return n.ID == node })
		if i >= 0 && !s.mayAdopt(o.desired.Nodes[i], by) {
			continue
		}
		delete(s.memory.obstacles, node)
		delete(o.facts.Problems, node)
	}
}

func (s *subject) mayAdopt(node plan.Node, by plan.Obstacle) bool {
	if by.Refused != nil || by.IsNamespace() || !node.AdoptsUnowned() && !node.AdoptClaimable {
		return false
	}
	found, state := s.lease.Object(by.Need.Kind, by.Need.Namespace, by.Need.Name)
	step := plan.Step{AdoptUnowned: node.AdoptsUnowned(), AdoptClaimable: node.AdoptClaimable}
	return found != nil && state.Phase == watch.Synced && step.MayAdopt(found, s.owner)
}

// The instance that this object belongs to is watched: its deletion frees the name.
func (r *Reconciler) nameConflict(s *subject, nodes []plan.Node, node string, holder *unstructured.Unstructured, writers string) plan.Problem {
	h := plan.NameHolder{Unstructured: holder, Writers: writers}
	if key, version, ok := r.Keys.InstanceOf(holder); ok && key != s.key && holder.GetDeletionTimestamp() == nil {
		owner, state := s.lease.Object(key.GroupKind().WithVersion(version), key.Namespace, key.Name)
		h.Instance, h.Syncing = owner, state.Phase == watch.Syncing || state.Phase == watch.Unwatched
		h.Reported = s.reportedProblem(node)
	}
	adopts := slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.ID == node && n.AdoptsUnowned() })
	return plan.NameConflictProblem(h, s.owner, adopts)
}

// A namespace that is being deleted counts as missing.
func missingNamespace(o *unstructured.Unstructured, err error) (problem plan.Problem, missing bool) {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return plan.MissingNamespaceProblem(o.GetNamespace(), true), true
	case kube.IsNamespaceMissing(err):
		return plan.MissingNamespaceProblem(o.GetNamespace(), false), true
	}
	return plan.Problem{}, false // the kind isn't served any more, say
}
