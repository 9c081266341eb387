package instance

import (
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// memory is what passes over one instance remember between them. None of it is
// needed to be right: losing it costs a request or two.
type memory struct {
	uid types.UID
	// tolerated are fields that the server didn't grant when they were applied.
	tolerated plan.Tolerated
	// blocked are nodes whose object's name is taken by somebody else's object.
	blocked map[string]blocker
	// losses are when a field of ours was last taken over, by child and field.
	losses map[loss][]time.Time
	// wrote is the last status written, and shown what the server made of it:
	// it may prune what the schema doesn't know.
	wrote, shown string
	// cut counts how often fields were missing from what was shown, for the
	// composer that wrote them.
	cut      int
	composer Composer
	// alarmed says that an error was announced and its end wasn't yet.
	alarmed bool
	// told is at which attempt a wait was last logged.
	told map[plan.WaitKey]int
}

// blocker is an object of somebody else's, and what was last said of it.
type blocker struct {
	need    plan.Need
	problem plan.Problem
}

type loss struct {
	child types.UID
	field object.Path
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

// Two managers that fight over a field are not hot-looped: after so many losses
// in the window, ours is taken back only once a window.
const (
	contestWindow = time.Minute
	contestLosses = 3
)

// lost notes that fields of a child were taken over, and says when each was
// contested so often that it is better left for a while: until when, and which.
func (m *memory) lost(child types.UID, fields []object.Path, now time.Time) (contested []object.Path, until time.Time) {
	for _, field := range fields {
		times := slices.DeleteFunc(m.losses[loss{child, field}], func(t time.Time) bool { return now.Sub(t) >= contestWindow })
		if len(times) >= contestLosses {
			contested = append(contested, field)
			if end := times[0].Add(contestWindow); until.IsZero() || end.After(until) {
				until = end
			}
		}
	}
	return contested, until
}

// tookBack notes that fields of a child were taken back.
func (m *memory) tookBack(child types.UID, fields []object.Path, now time.Time) {
	if m.losses == nil {
		m.losses = map[loss][]time.Time{}
	}
	for _, field := range fields {
		key := loss{child, field}
		times := append(m.losses[key], now)
		m.losses[key] = times[max(0, len(times)-contestLosses):]
	}
}

// tolerate notes which fields the server did not grant.
func (m *memory) tolerate(child types.UID, fields []object.Path) {
	if len(fields) == 0 {
		delete(m.tolerated, child)
		return
	}
	if m.tolerated == nil {
		m.tolerated = plan.Tolerated{}
	}
	m.tolerated[child] = object.Digest(fields)
}

// block notes that somebody else's object has the name of a node's.
func (m *memory) block(node string, by blocker) {
	if m.blocked == nil {
		m.blocked = map[string]blocker{}
	}
	m.blocked[node] = by
}

// tell logs each wait when it is found and at each further attempt.
func (m *memory) tell(log logr.Logger, waits []plan.Wait, now time.Time) {
	told := make(map[plan.WaitKey]int, len(waits))
	for _, w := range waits {
		attempts := w.Attempts(now)
		told[w.Key()] = attempts
		if m.told[w.Key()] != attempts {
			log.Info("WARNING: a resource waits", "node", w.Node, "reason", w.Reason, "on", w.On, "since", w.Since.UTC().Format(time.RFC3339), "attempts", attempts)
		}
	}
	m.told = told
}
