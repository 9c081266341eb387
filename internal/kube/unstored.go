package kube

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// How long a kind's differences are relied on: a schema that was just changed takes the API server a moment to use,
// and another program may change it at any time. After soonRecheck the schema counts as the reason.
const (
	firstRecheck = time.Second
	soonRecheck  = 20 * time.Second
	lastRecheck  = 5 * time.Minute
)

// storedStatuses knows, by kind, how statuses differ from what was sent: fields that the schema lacks are removed, and
// defaults are added. A status that differs from the stored one in nothing else is not sent again: its write would
// change nothing, and the next reconcile would find the same difference. It is safe for concurrent use.
type storedStatuses struct {
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]storedDifference
}

// storedDifference are the paths that the API server removed from the last status of a kind that was sent, and those
// that it added. Items of lists are one path, "conditions[].reason".
type storedDifference struct {
	removed, added map[string]bool
	recheck        time.Duration
	until          time.Time
}

// isStored reports whether a write of the status would change nothing.
func (s *storedStatuses) isStored(kind schema.GroupVersionKind, current any, next map[string]any, now time.Time) bool {
	s.mu.Lock()
	d, known := s.kinds[kind]
	s.mu.Unlock()
	if !known || now.After(d.until) {
		return false
	}
	stored, _ := current.(map[string]any)
	return object.Digest(without(next, stored, "", d.removed)) == object.Digest(without(stored, next, "", d.added))
}

func (s *storedStatuses) observe(kind schema.GroupVersionKind, sent map[string]any, answer any, now time.Time) {
	stored, _ := answer.(map[string]any)
	d := storedDifference{removed: map[string]bool{}, added: map[string]bool{}}
	addMissing(sent, stored, "", d.removed)
	addMissing(stored, sent, "", d.added)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(d.removed)+len(d.added) == 0 {
		delete(s.kinds, kind)
		return
	}
	was, known := s.kinds[kind]
	if d.recheck = firstRecheck; known {
		// A status may lack some of the fields that the schema lacks. One that is stored now is not lacking any more.
		present := map[string]bool{}
		addPaths(stored, "", present)
		for path := range was.removed {
			d.removed[path] = d.removed[path] || !present[path]
		}
		maps.DeleteFunc(d.removed, func(_ string, removed bool) bool { return !removed })
		maps.Copy(d.added, was.added)
		if d.recheck = was.recheck; now.After(was.until) {
			d.recheck = min(4*was.recheck, lastRecheck)
		}
	}
	d.until = now.Add(d.recheck)
	if s.kinds == nil {
		s.kinds = map[schema.GroupVersionKind]storedDifference{}
	}
	s.kinds[kind] = d
}

// It is the time after which the API server may store more of it; 0 if no time is known.
func (s *storedStatuses) recheck(kind schema.GroupVersionKind, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.kinds[kind]
	if len(d.removed) == 0 || d.recheck > soonRecheck {
		return 0
	}
	return max(d.until.Sub(now), 0) + time.Millisecond
}

// addMissing adds the paths of the fields that a value has and another lacks. A field without a value counts as none.
func addMissing(has, other any, at string, paths map[string]bool) {
	switch has := has.(type) {
	case map[string]any:
		other, isMap := other.(map[string]any)
		for name, value := range has {
			switch theirs, exists := other[name]; {
			case exists:
				addMissing(value, theirs, at+"."+name, paths)
			case isMap && value != nil:
				paths[at+"."+name] = true
			}
		}
	case []any:
		if other, isList := other.([]any); isList && len(other) == len(has) {
			for i := range has {
				addMissing(has[i], other[i], at+"[]", paths)
			}
		}
	}
}

func addPaths(value any, at string, paths map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			paths[at+"."+name] = true
			addPaths(v, at+"."+name, paths)
		}
	case []any:
		for _, item := range value {
			addPaths(item, at+"[]", paths)
		}
	}
}

// A field that the other value lacks is left out if its path is among the given ones.
func without(value, other any, at string, paths map[string]bool) any {
	switch value := value.(type) {
	case map[string]any:
		other, _ := other.(map[string]any)
		out := make(map[string]any, len(value))
		for name, v := range value {
			theirs, exists := other[name]
			if !exists && (v == nil || paths[at+"."+name]) {
				continue
			}
			out[name] = without(v, theirs, at+"."+name, paths)
		}
		return out
	case []any:
		other, isList := other.([]any)
		if !isList || len(other) != len(value) {
			return value
		}
		out := make([]any, len(value))
		for i := range value {
			out[i] = without(value[i], other[i], at+"[]", paths)
		}
		return out
	}
	return value
}
