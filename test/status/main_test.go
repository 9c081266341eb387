// Package status proves that nested status is live: values reach the layers above by events,
// whatever is waited for is named, and an instance tells what it is and why.
package status

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	log := funcr.New(leaks.logged, funcr.Options{Verbosity: 1})
	os.Exit(suite.Main(m, server.Options{ObservePropagation: propagation.note, Log: log}, nil))
}

// secret begins all that Secrets hold here.
const secret = "hunter2"

// leaks are the lines of the log that contain the value of a Secret.
var leaks leaked

type leaked struct {
	mu    sync.Mutex
	lines []string
}

func (l *leaked) logged(_, line string) {
	if strings.Contains(line, secret) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}
}

// none checks that the log holds no secret value so far.
func (l *leaked) none(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		t.Errorf("the log tells what a Secret holds: %s", line)
	}
}
