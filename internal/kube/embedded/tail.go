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

// tail forwards what is written to it, and keeps the end.
type tail struct {
	next io.Writer // nil discards

	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailBytes; extra > 0 {
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
