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

	mu        sync.Mutex
	end       []byte
	cut       bool
	discarded bool
}

const tailBytes = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	if !t.discarded {
		t.end = append(t.end, p...)
	}
	if extra := len(t.end) - tailBytes; extra > 0 {
		t.end, t.cut = append(t.end[:0], t.end[extra:]...), true
	}
	t.mu.Unlock()
	return t.next.Write(p)
}

// discard drops what is kept, and keeps nothing from now on. A program that is called may print data of one
// composite, and error messages are in the statuses of all that use its function.
func (t *tail) discard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end, t.cut, t.discarded = nil, false, true
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
