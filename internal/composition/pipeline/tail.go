package pipeline

import (
	"io"
	"strings"
	"sync"

	"github.com/espalier-dev/espalier/internal/diag"
)

// tail is a writer that passes on its input and keeps the last tailBytes of it.
type tail struct {
	next io.Writer

	mu  sync.Mutex
	end []byte
	// cut says that there was more before.
	cut bool
}

// tailBytes is how much of a program's output is kept for error messages.
const tailBytes = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailBytes; extra > 0 {
		t.end, t.cut = append(t.end[:0], t.end[extra:]...), true
	}
	t.mu.Unlock()
	return t.next.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.end), ""))
	if t.cut {
		return diag.Ellipsis + text // the rest of a secret value may follow, which is searched for there
	}
	return text
}
