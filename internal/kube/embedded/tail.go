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

// maxExplained is how much of a log is searched for the cause of an end: it is before the stacks of a panic.
const maxExplained = 256 << 10

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

// It does not wait for release.
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

// It skips the first bytes, and returns nothing if the file cannot be read.
func readEnd(name string, first, bytes int64) string {
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	if first > info.Size() { // it was truncated
		first = 0
	}
	data, err := io.ReadAll(io.NewSectionReader(file, max(first, info.Size()-bytes), bytes))
	if err != nil {
		return ""
	}
	return string(data)
}

// lastLines returns the complete lines at the end of a text.
func lastLines(text string) string {
	if extra := len(text) - tailBytes; extra > 0 {
		_, text, _ = strings.Cut(text[extra:], "\n")
	}
	return strings.TrimSpace(text)
}
