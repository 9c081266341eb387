package pipeline

import (
	"io"
	"strings"
	"sync"
)

// tail is a writer that passes on its input and keeps the last tailBytes of it.
type tail struct {
	next io.Writer

	mu  sync.Mutex
	end []byte
}

// tailBytes is how much of a program's output is kept for error messages.
const tailBytes = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailBytes; extra > 0 {
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
