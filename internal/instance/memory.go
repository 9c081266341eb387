package instance

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// memory is what is remembered of one instance between reconciles. Correctness doesn't depend
// on it: losing it costs a request or two, or the event that an error is over.
type memory struct {
	uid types.UID
	// watchesRestored says that what the instance recorded is watched.
	watchesRestored bool
	// namespaces are the inventory's, if children are looked for in single namespaces; nil before an intact inventory
	// was read.
	namespaces map[string]struct{}
	// history is what plans depend on in addition to what is observed.
	history plan.History
	// proved are the children that were proved to be the instance's: see inventory.Owner.Owns. Without them, a child
	// that has lost its signature as well is foreign.
	proved map[types.UID]inventory.ProvedChild
	// observed are the children as they were when their status last was of their current
	// generation.
	observed map[types.UID]*unstructured.Unstructured
	// obstacles keep nodes from being applied.
	obstacles map[string]plan.Obstacle
	// recordedResults are the results that events were recorded for.
	recordedResults map[plan.Result]bool
	// waitingSince is when waits began, also if the status has no room for it.
	waitingSince map[plan.WaitKey]time.Time
	// problems are those that were last reported.
	problems []report.Problem
	// childRevisions are the resource versions of nested instances that were last observed.
	childRevisions map[types.UID]string
	// deletionHistory is what is known of children that are to be deleted.
	deletionHistory plan.DeletionHistory
	// writeUnanswered says that the outcome of a write to a child is unknown.
	writeUnanswered bool
	// policy is the propagation policy of the instance's deletion, once that is known.
	policy report.Policy
	// orphaningSince is when the instance was first seen with the finalizer that makes the garbage collector orphan its
	// children.
	orphaningSince time.Time
	// deletion is what was last reported of the instance's deletion.
	deletion *report.Deletion
	// usagesSubscribed says that the instance is registered with Usages.
	usagesSubscribed bool
	// statusTooNarrow says that the server rejects the engine's own fields in the status.
	statusTooNarrow bool
	// dialectConditions are the dialect's own if the status holds the author's instead.
	dialectConditions condition.Set
	// unsettledReconciles counts the reconciles in a row that ended while another round would have
	// changed more.
	unsettledReconciles int
	// problemRecorded says that there was an event of a problem, and none of its end yet.
	problemRecorded bool
	// refusals are the writes to the instance itself that are refused.
	refusals telemetry.WriteFailures
	// loggedAttempts is at which attempt a wait was last logged.
	loggedAttempts map[plan.WaitKey]int
}

// memories holds the memory of each instance of a kind. The map is locked; each
// memory is used by one reconcile at a time.
type memories struct {
	mu    sync.Mutex
	byKey map[object.Key]*memory
}

// The memory of a former incarnation is dropped.
func (m *memories) of(key object.Key, uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[object.Key]*memory{}
	}
	if known, ok := m.byKey[key]; ok && known.uid == uid {
		return known
	}
	fresh := &memory{uid: uid, proved: map[types.UID]inventory.ProvedChild{}}
	m.byKey[key] = fresh
	return fresh
}

// It returns nil if there is none.
func (m *memories) forget(key object.Key) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	dropped := m.byKey[key]
	delete(m.byKey, key)
	return dropped
}

// noteGranted notes what follows from a successful write: which fields the server doesn't let
// us own, that there is no conflict, and that nothing has drifted.
func (m *memory) noteGranted(step plan.Step, answer *unstructured.Unstructured) {
	child := answer.GetUID()
	lost := plan.DriftedFields(step.Object, answer, v1alpha1.ChildManager)
	m.noteUngranted(child, step.Reclaimed(lost))
	delete(m.history.Refusals, child)
	if left := step.FieldsLeft(lost); step.Drift.Policy == v1alpha1.DriftWarn && len(left) > 0 && len(step.OmitFields) == 0 {
		m.noteInspection(child, plan.Inspection{Digest: plan.FieldsDigest(answer, left)})
	} else {
		delete(m.history.Inspections, child)
	}
}

func (m *memory) noteUngranted(child types.UID, fields []object.Path) {
	if len(fields) == 0 {
		delete(m.history.Ungranted, child)
		return
	}
	if m.history.Ungranted == nil {
		m.history.Ungranted = plan.Ungranted{}
	}
	m.history.Ungranted[child] = object.Digest(fields)
}

func (m *memory) noteContributed(step plan.Step, answer plan.ContributionAnswer, now time.Time) {
	if m.history.Contributed == nil {
		m.history.Contributed = plan.Contributed{}
	}
	m.history.Contributed[step.Node] = answer
	if answer.Refused == nil {
		m.history.Contests = m.history.Contests.WithCorrection(answer.UID, step.LostFields, now)
	}
}

func (m *memory) noteInspection(child types.UID, seen plan.Inspection) {
	if m.history.Inspections == nil {
		m.history.Inspections = plan.Inspections{}
	}
	m.history.Inspections[child] = seen
}

// asObserved is a child as of the generation that its status is of; see plan.AsObserved.
func (m *memory) asObserved(child *unstructured.Unstructured) *unstructured.Unstructured {
	if child.GetGeneration() == 0 {
		return child // its kind doesn't count generations
	}
	if before := m.observed[child.GetUID()]; before != nil && health.Stale(child) {
		return plan.AsObserved(child, before)
	}
	if m.observed == nil {
		m.observed = map[types.UID]*unstructured.Unstructured{}
	}
	m.observed[child.GetUID()] = child
	return child
}

// noteDecisions records which children a plan has found intact, and which fields it leaves to other
// managers for now.
func (m *memory) noteDecisions(p plan.Plan, now time.Time) {
	m.history.Intact = m.history.Intact.Next(p.Steps)
	m.history.Contests.DropOld(now)
	m.history.Contributed = m.history.Contributed.Of(p.Steps)
	for _, step := range p.Steps {
		m.history.Contests = m.history.Contests.WithObservedWrites(step, now)
	}
}

func (m *memory) forgetGone(last round) {
	if len(last.facts.UnreadableOwned) > 0 {
		return
	}
	there := uidsOf(slices.Collect(maps.Values(last.facts.Owned))...)
	maps.DeleteFunc(m.history.Refusals, func(child types.UID, _ plan.RefusedApply) bool { return !there[child] })
	maps.DeleteFunc(m.observed, func(child types.UID, _ *unstructured.Unstructured) bool { return !there[child] })
	maps.DeleteFunc(m.history.Inspections, func(child types.UID, _ plan.Inspection) bool { return !there[child] })
	if last.desired.Problem.Reason == "" { // else there may be further nodes
		m.forgetProved(last.desired.Nodes, last.plan.Steps, there)
	}
}

// unusualWait is how long a resource waits before that is logged as a warning: external resources take seconds.
const unusualWait = 30 * time.Second

// logWaits logs each wait when it is found and at each further attempt, and remembers when it
// began.
func (m *memory) logWaits(log logr.Logger, waits []plan.Wait, now time.Time) {
	logged := make(map[plan.WaitKey]int, len(waits))
	m.waitingSince = make(map[plan.WaitKey]time.Time, len(waits))
	for _, w := range waits {
		attempts := w.Attempts(now)
		logged[w.Key()] = attempts
		m.waitingSince[w.Key()] = w.Since
		if m.loggedAttempts[w.Key()] != attempts {
			text := "a resource waits"
			if now.Sub(w.Since) >= unusualWait {
				text = "warning: a resource still waits"
			}
			log.Info(text, "node", w.Node, "reason", w.Reason, "on", w.On, "since", w.Since.UTC().Format(time.RFC3339), "attempts", attempts)
		}
	}
	m.loggedAttempts = logged
}

// updateAttempts changes what is known of a child that is to be deleted, or of the instance itself.
func (m *memory) updateAttempts(o *unstructured.Unstructured, change func(plan.DeletionAttempts) plan.DeletionAttempts) plan.DeletionAttempts {
	if m.deletionHistory.Children == nil {
		m.deletionHistory.Children = map[types.UID]plan.DeletionAttempts{}
	}
	attempts := change(m.deletionHistory.Children[o.GetUID()])
	m.deletionHistory.Children[o.GetUID()] = attempts
	return attempts
}
