package embedded

import (
	"io"
	"os"
	"strings"
	"sync"
)

// kept is how much of a text counts as its end: enough for the error and what led to it.
const kept = 4 << 10

// tail passes on what is written to it, and remembers the end.
type tail struct {
	next io.Writer // nil: nowhere

	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - kept; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	t.mu.Unlock()
	if t.next == nil {
		return len(p), nil
	}
	return t.next.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}

// lastLines returns the whole lines at the end of a file, or nothing if it cannot be read.
func lastLines(name string) string {
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	cut := false
	if info, err := file.Stat(); err == nil && info.Size() > kept {
		_, err := file.Seek(-kept, io.SeekEnd)
		cut = err == nil
	}
	data, err := io.ReadAll(io.LimitReader(file, kept))
	if err != nil {
		return ""
	}
	text := string(data)
	if cut {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
}
