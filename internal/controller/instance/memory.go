package instance

import (
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// memory is what passes over one instance remember between them. Nothing rests
// on it: losing it costs a request or two, or the event that an error is over.
type memory struct {
	uid types.UID
	// rewatched says that what the instance recorded is watched.
	rewatched bool
	// history is what plans depend on beside what is observed.
	history plan.History
	// observed are the children as they were when their status last told of their own
	// generation.
	observed map[types.UID]*unstructured.Unstructured
	// blocked are nodes that something is in the way of.
	blocked map[string]blocker
	// wrote is the last status written, and shown what the server made of it:
	// it may prune what the schema doesn't know.
	wrote, shown string
	// cut counts how often fields were missing from what was shown, for the
	// composer that wrote them.
	cut      int
	composer Composer
	// composed is what the composer remembers.
	composed any
	// said are the results that were told of as events.
	said map[plan.Result]bool
	// since is when waits began, also where the status has no room to say so.
	since map[plan.WaitKey]time.Time
	// problems are those that were last told.
	problems []report.Problem
	// taken are the revisions of nested instances that were last taken up.
	taken map[types.UID]string
	// tried is what is known of children that were asked to go.
	tried plan.Tried
	// unanswered says that it isn't known what has become of a write to a child.
	unanswered bool
	// policy is what was asked for when the instance was deleted, once that is
	// known.
	policy report.Policy
	// deletion is what was last told of the instance's deletion.
	deletion *report.Deletion
	// asked says that it has asked who uses what is to go.
	asked bool
	// narrow says that the server doesn't take the engine's own fields in the
	// status.
	narrow bool
	// own are the dialect's own conditions where the status holds the author's instead.
	own condition.Set
	// restless counts the passes that ended without an answer to stay with.
	restless int
	// alarmed says that an error was announced and its end wasn't yet.
	alarmed bool
	// refusals are the writes to the instance itself that are refused.
	refusals telemetry.Refusals
	// told is at which attempt a wait was last logged.
	told map[plan.WaitKey]int
}

// memories holds the memory of each instance of a kind. The map is locked; each
// memory is used by one pass at a time.
type memories struct {
	mu    sync.Mutex
	byKey map[object.Key]*memory
}

// of returns the instance's memory; that of a former incarnation is dropped.
func (m *memories) of(key object.Key, uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[object.Key]*memory{}
	}
	if known, ok := m.byKey[key]; ok && known.uid == uid {
		return known
	}
	fresh := &memory{uid: uid}
	m.byKey[key] = fresh
	return fresh
}

func (m *memories) forget(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}

// tolerate notes which fields the server did not grant.
func (m *memory) tolerate(child types.UID, fields []object.Path) {
	if len(fields) == 0 {
		delete(m.history.Tolerated, child)
		return
	}
	if m.history.Tolerated == nil {
		m.history.Tolerated = plan.Tolerated{}
	}
	m.history.Tolerated[child] = object.Digest(fields)
}

// sight notes what came of a closer look at a child.
func (m *memory) sight(child types.UID, seen plan.Sighting) {
	if m.history.Sightings == nil {
		m.history.Sightings = plan.Sightings{}
	}
	m.history.Sightings[child] = seen
}

// asObserved is a child as its status tells of it; see plan.AsObserved.
func (m *memory) asObserved(child *unstructured.Unstructured) *unstructured.Unstructured {
	if child.GetGeneration() == 0 {
		return child // nothing counts what is wanted of it
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

// noteContests notes which fields a plan leaves to other managers for now.
func (m *memory) noteContests(p plan.Plan, now time.Time) {
	for _, step := range p.Steps {
		m.history.Losses = m.history.Losses.Left(step, now)
	}
}

// forgetGone drops what is remembered of children that aren't there any more.
func (m *memory) forgetGone(owned map[string][]*unstructured.Unstructured) {
	if len(m.history.Refusals)+len(m.history.Sightings)+len(m.observed) == 0 {
		return
	}
	there := map[types.UID]bool{}
	for _, children := range owned {
		for _, child := range children {
			there[child.GetUID()] = true
		}
	}
	maps.DeleteFunc(m.history.Refusals, func(child types.UID, _ plan.Refused) bool { return !there[child] })
	maps.DeleteFunc(m.observed, func(child types.UID, _ *unstructured.Unstructured) bool { return !there[child] })
	maps.DeleteFunc(m.history.Sightings, func(child types.UID, _ plan.Sighting) bool { return !there[child] })
}

// tell logs each wait when it is found and at each further attempt, and remembers
// since when it is.
func (m *memory) tell(log logr.Logger, waits []plan.Wait, now time.Time) {
	told := make(map[plan.WaitKey]int, len(waits))
	m.since = make(map[plan.WaitKey]time.Time, len(waits))
	for _, w := range waits {
		attempts := w.Attempts(now)
		told[w.Key()] = attempts
		m.since[w.Key()] = w.Since
		if m.told[w.Key()] != attempts {
			log.Info("warning: a resource waits", "node", w.Node, "reason", w.Reason, "on", w.On, "since", w.Since.UTC().Format(time.RFC3339), "attempts", attempts)
		}
	}
	m.told = told
}
