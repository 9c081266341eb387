package queue

// Idle says that no object waits to be reconciled or is being reconciled. Delayed requests don't count.
func (e *Engine) Idle() bool {
	for _, n := range e.queue.counts() {
		if n.depth > 0 || n.active > 0 {
			return false
		}
	}
	return true
}
