package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// keptSteps is how many of the last steps are printed when a run fails.
const keptSteps = 25

// journal is the log of a run: its steps, and what the controllers log.
type journal struct {
	mu     sync.Mutex
	file   *os.File
	last   []string
	panics []string
}

func openJournal(path string) (*journal, error) {
	file, err := os.Create(path)
	return &journal{file: file}, err
}

func (j *journal) write(line string) {
	_, _ = fmt.Fprintln(j.file, time.Now().Format("15:04:05.000"), line) // the log is an aid
}

// step records what is done, with what came of it.
func (j *journal) step(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	j.write(line)
	j.last = append(j.last, time.Now().Format("15:04:05.000 ")+line)
	j.last = slices.Delete(j.last, 0, max(0, len(j.last)-keptSteps))
}

// controllers is the log of the controllers; it keeps the first panics.
func (j *journal) controllers() logr.Logger {
	return funcr.New(func(prefix, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		line := "    " + prefix + " " + args
		j.write(line)
		if strings.Contains(line, "panic") && len(j.panics) < keptSteps {
			j.panics = append(j.panics, line)
		}
	}, funcr.Options{})
}

// failure returns the panics in the log of the controllers, as an error.
func (j *journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.panics) > 0 {
		return fmt.Errorf("the controllers panicked:\n%s", strings.Join(j.panics, "\n"))
	}
	return nil
}

func (j *journal) lastSteps() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.last, "\n")
}
