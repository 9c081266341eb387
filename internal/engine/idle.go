package engine

// Idle says that no object waits for a pass or is worked on. Passes that are asked for
// later, after a delay, don't count.
func (e *Engine) Idle() bool {
	for _, n := range e.queue.tally() {
		if n.depth > 0 || n.active > 0 {
			return false
		}
	}
	return true
}
