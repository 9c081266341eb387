package queue

import "time"

// Idle reports whether no object waits to be reconciled, is being reconciled, or is due to be reconciled within the given
// time.
func (e *Engine) Idle(within time.Duration) bool {
	until := time.Now().Add(within)
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	for k := range e.queue.kinds {
		if k.depth > 0 || k.active > 0 {
			return false
		}
		for _, it := range k.items {
			if it.delayed != nil && it.delayed.due.Before(until) {
				return false
			}
		}
	}
	return true
}
