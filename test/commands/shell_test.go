package commands

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/testkit"
)

const (
	root = "../.."
	// limit is how long a command may take. Those that take longest wait for 30 seconds by themselves.
	limit = 2 * time.Minute
	// killDelay is how long a command may take to end after it was interrupted.
	killDelay = 20 * time.Second
)

// Exit codes, as the help texts describe them.
const (
	done     = 0
	failed   = 1
	blocked  = 3
	notReady = 5
	changes  = 6
)

// shell runs commands in a directory that has what pages assume: the examples of the repository, the files of testdata, and
// the programs in bin, which is in the PATH. It is the home directory, too.
type shell struct {
	whole *testing.T // the test that all commands are part of
	dir   string
	env   []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{whole: t, dir: t.TempDir()}
	programs := filepath.Join(s.dir, "bin")
	if err := os.CopyFS(s.dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"bin/espalier": self, "bin/kubectl": testkit.Kubectl(t), "examples": absolute(t, root+"/examples")} {
		if err := os.Symlink(target, filepath.Join(s.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	controlPlane := absolute(t, root+"/bin/espalier-controlplane")
	s.env = append(os.Environ(), "HOME="+s.dir, "PATH="+programs+":"+os.Getenv("PATH"), "ESPALIER_CONTROLPLANE="+controlPlane)
	return s
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// text is a page or a help text, with the place that messages name.
type text struct{ place, content string }

func page(t *testing.T, name string) text {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text{name, string(content)}
}

// help is the help text of a command.
func (s *shell) help(t *testing.T, command string) text {
	t.Helper()
	return text{command + " --help", s.do(t, "espalier "+command+" --help")}
}

// shows checks that the text has a command: what is run here is what readers run.
func (x text) shows(t *testing.T, line string) {
	t.Helper()
	if !regexp.MustCompile(`(?m)(^|[ $\x60(/])` + regexp.QuoteMeta(line) + `($|[\s\x60)])`).MatchString(x.content) {
		t.Errorf("%s does not show %q", x.place, line)
	}
}

// block is the block of commands that contains something.
func (x text) block(t *testing.T, contains string) string {
	t.Helper()
	for i, block := range strings.Split(x.content, "```") {
		if _, commands, isShell := strings.Cut(block, "sh\n"); i%2 == 1 && isShell && strings.Contains(block, contains) {
			return strings.TrimSpace(commands)
		}
	}
	t.Fatalf("%s has no block with %q", x.place, contains)
	return ""
}

// run runs a command that a text shows. The command must end with an exit code, and print texts; how many spaces are
// between their words does not matter.
func (s *shell) run(t *testing.T, of text, line string, code int, prints ...string) string {
	t.Helper()
	c := s.start(t, of, line)
	return c.wait(t, code, prints...)
}

// do runs a command that no text shows, for what the others need.
func (s *shell) do(t *testing.T, line string) string {
	t.Helper()
	c := s.startHidden(t, line)
	return c.wait(t, done)
}

// start starts a command that a text shows.
func (s *shell) start(t *testing.T, of text, line string) *command {
	t.Helper()
	of.shows(t, line)
	line, _, _ = strings.Cut(line, " | jq ") // not every machine has it
	return s.startHidden(t, line)
}

func (s *shell) startHidden(t *testing.T, line string) *command {
	t.Helper()
	return s.begin(t, line, nil, limit)
}

func (s *shell) begin(t *testing.T, line string, stdin io.Reader, limit time.Duration) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	c := &command{line: line, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	c.process = exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", line)
	c.process.Dir, c.process.Env = s.dir, s.env
	c.process.Stdin, c.process.Stdout, c.process.Stderr = stdin, c, c
	// The whole group is interrupted, as by a terminal.
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.process.Cancel = func() error { return syscall.Kill(-c.process.Process.Pid, syscall.SIGINT) }
	c.process.WaitDelay = killDelay
	if err := c.process.Start(); err != nil {
		cancel()
		t.Fatalf("%s: %v", line, err)
	}
	go func() {
		defer cancel()
		c.err = c.process.Wait()
		close(c.ended)
	}()
	return c
}

// command is a command that has been started. Its output is that of both streams.
type command struct {
	line    string
	process *exec.Cmd
	changed chan struct{} // there is more output
	ended   chan struct{} // err is set
	err     error

	mu     sync.Mutex
	output bytes.Buffer
}

func (c *command) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output.Write(p)
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (c *command) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

// await waits until the command has printed a text.
func (c *command) await(t *testing.T, prints string) {
	t.Helper()
	for !contains(c.text(), prints) {
		select {
		case <-c.changed:
		case <-c.ended:
			if !contains(c.text(), prints) {
				t.Fatalf("%s ends (%v) before it prints %q:\n%s", c.line, c.err, prints, c.text())
			}
		}
	}
}

// interrupt interrupts the command, as Ctrl-C does.
func (c *command) interrupt() { _ = c.process.Cancel() }

// wait waits for the end of the command.
func (c *command) wait(t *testing.T, code int, prints ...string) string {
	t.Helper()
	<-c.ended
	var exited *exec.ExitError
	out, got := c.text(), 0
	switch {
	case errors.As(c.err, &exited):
		got = exited.ExitCode()
	case c.err != nil:
		t.Fatalf("%s: %v\n%s", c.line, c.err, out)
	}
	if got != code {
		t.Fatalf("%s ends with %d, not %d:\n%s", c.line, got, code, out)
	}
	for _, want := range prints {
		if !contains(out, want) {
			t.Errorf("%s does not print %q:\n%s", c.line, want, out)
		}
	}
	return out
}

// contains reports whether an output has a text, whatever the number of spaces between words.
func contains(output, text string) bool {
	return strings.Contains(words(output), words(text))
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// startUp starts a control plane, and sets the KUBECONFIG that it prints.
func (s *shell) startUp(t *testing.T, line string) *command {
	t.Helper()
	alive, parent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	c := s.begin(t, line, alive, 10*limit)
	s.whole.Cleanup(func() {
		parent.Close()
		<-c.ended
		if s.whole.Failed() {
			s.whole.Logf("%s: %v\n%s", line, c.err, c.text())
		}
	})
	c.await(t, "\nready")
	kubeconfig := regexp.MustCompile(`(?m)^export (KUBECONFIG=.*)$`).FindStringSubmatch(c.text())
	if kubeconfig == nil {
		t.Fatalf("%s prints no KUBECONFIG:\n%s", line, c.text())
	}
	s.env = append(s.env, kubeconfig[1])
	return c
}

// kill kills the command, which cannot do anything about it.
func (c *command) kill() {
	_ = syscall.Kill(-c.process.Process.Pid, syscall.SIGKILL)
	<-c.ended
}
