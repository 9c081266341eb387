package embedded

import (
	"io"
	"os"
	"strings"
	"sync"
)

// tailBytes is how much of a log an error message contains: enough for the failure and what
// led to it.
const tailBytes = 4 << 10

// tail keeps the end of what is written to it. After release it forwards that and all that follows: before, it may be part of
// an error, which is reported once.
type tail struct {
	next io.Writer // nil discards

	mu       sync.Mutex
	released bool
	end      []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailBytes; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	if t.next == nil || !t.released {
		return len(p), nil
	}
	return t.next.Write(p)
}

func (t *tail) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = true
	if t.next != nil && len(t.end) > 0 {
		_, _ = t.next.Write(t.end) // messages for people; nothing depends on them
	}
}

// notify forwards a message at once.
func (t *tail) notify(message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil {
		_, _ = io.WriteString(t.next, message) // as in release
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}

// lastLines returns the complete lines at the end of a file, or nothing if it cannot be
// read.
func lastLines(name string) string {
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	cut := false
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		_, err := file.Seek(-tailBytes, io.SeekEnd)
		cut = err == nil
	}
	data, err := io.ReadAll(io.LimitReader(file, tailBytes))
	if err != nil {
		return ""
	}
	text := string(data)
	if cut {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
}
