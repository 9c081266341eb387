package pipeline

import (
	"io"
	"strings"
	"sync"
)

// tail passes on what is written to it, and remembers the end.
type tail struct {
	next io.Writer

	mu  sync.Mutex
	end []byte
}

// kept is how much of a program's output is remembered: enough for an error.
const kept = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - kept; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	t.mu.Unlock()
	return t.next.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.end), ""))
}
