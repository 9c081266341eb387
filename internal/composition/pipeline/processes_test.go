package pipeline_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// printed takes what programs print.
type printed struct {
	sync.Mutex
	bytes.Buffer
}

func (p *printed) Write(data []byte) (int, error) {
	p.Lock()
	defer p.Unlock()
	return p.Buffer.Write(data)
}

// started starts the test's program as a function of that sort.
func started(t *testing.T, sort string, o pipeline.ProcessOptions) (pipeline.Runner, *pipeline.Processes) {
	t.Helper()
	o.Environment = append(o.Environment, life+"="+sort)
	if o.MinBackoff == 0 {
		o.MinBackoff, o.MaxBackoff = time.Millisecond, time.Second
	}
	processes := pipeline.NewProcesses(o)
	t.Cleanup(processes.Close)
	processes.Start("f", os.Args[0])
	runner, _ := remote(t, pipeline.RemoteOptions{Endpoints: processes})
	return runner, processes
}

// until asks again and again until it is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	late := time.After(20 * time.Second)
	for !so() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%s, still not so", what)
		}
	}
}

func accepts(address string) bool {
	connection, err := net.Dial("tcp", address)
	if err == nil {
		connection.Close()
	}
	return err == nil
}

func TestAProgramIsRestarted(t *testing.T) {
	changes := make(chan string, 64)
	runner, processes := started(t, "good", pipeline.ProcessOptions{OnChange: func(name string) { changes <- name }})
	first, err := runner.Run(t.Context(), "f", &request{})
	if err != nil {
		t.Fatal(err)
	}
	revision := processes.Revision("f")
	id, err := strconv.Atoi(first.GetMeta().GetTag())
	if err != nil || id == os.Getpid() {
		t.Fatalf("want another process, got %v, %v", first, err)
	}
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "it is called again", func() bool {
		second, err := runner.Run(t.Context(), "f", &request{})
		if call, ok := err.(*pipeline.CallError); err != nil && (!ok || call.Code != "Unavailable") {
			t.Errorf("want it unavailable in the meantime, got %v", err)
		}
		return err == nil && second.GetMeta().GetTag() != first.GetMeta().GetTag()
	})
	if processes.Revision("f") == revision || processes.Revision("g") != "" {
		t.Errorf("want another revision, got %q", processes.Revision("f"))
	}
	for range 5 { // started, serving, ended, started, serving
		if name := <-changes; name != "f" || processes.RunError(name) != nil {
			t.Errorf("want a notification of f, got %s, %v", name, processes.RunError(name))
		}
	}
	processes.Stop("f")
	if _, err := runner.Run(t.Context(), "f", &request{}); !errors.As(err, new(*pipeline.UnknownFunctionError)) {
		t.Errorf("want it forgotten, got %v", err)
	}
}

func TestAnErrorHasTheProgramsOutput(t *testing.T) {
	out := &printed{}
	runner, processes := started(t, "dying", pipeline.ProcessOptions{MinBackoff: time.Hour, Output: func(string) io.Writer { return out }})
	_, err := runner.Run(t.Context(), "f", &request{})
	var stopped *pipeline.NotRunningError
	if !errors.As(err, new(*pipeline.CallError)) || !strings.Contains(err.Error(), "exit status 3; output: there is no configuration") {
		t.Errorf("want its last words, got %v", err)
	}
	if _, err := processes.Endpoint(t.Context(), "f"); !errors.As(err, &stopped) || time.Until(stopped.RestartAt) < 50*time.Minute {
		t.Errorf("want to know when it is started again, got %v", err)
	}
	if !errors.As(processes.RunError("f"), &stopped) || processes.RunError("g") != nil {
		t.Errorf("want its trouble alone, got %v", processes.RunError("f"))
	}
	processes.Close()
	if got := out.String(); got != "there is no configuration\n" {
		t.Errorf("want what it printed, got %q", got)
	}
}

// TestAnErrorHasNoOutputOfCalls makes a program fail in a call, and another caller see that it is not running.
func TestAnErrorHasNoOutputOfCalls(t *testing.T) {
	out := &printed{}
	runner, _ := started(t, "crashing", pipeline.ProcessOptions{MinBackoff: time.Hour, Output: func(string) io.Writer { return out }})
	if _, err := runner.Run(t.Context(), "f", &request{Meta: &fnv1.RequestMeta{Tag: "hunter2"}}); err == nil {
		t.Error("want the call to fail")
	}
	until(t, "the program is not running", func() bool {
		_, err := runner.Run(t.Context(), "f", &request{})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("want an error without data of another call, got %v", err)
		}
		return err != nil && strings.Contains(err.Error(), "exit status 3")
	})
	if got := out.String(); !strings.Contains(got, "hunter2") {
		t.Errorf("want what it printed in the log, got %q", got)
	}
}

// TestAProgramGetsTheConfiguredEnvironmentOnly starts a program beside credentials in the
// environment of this process.
func TestAProgramGetsTheConfiguredEnvironmentOnly(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary")
	_, processes := started(t, "environment", pipeline.ProcessOptions{MinBackoff: time.Hour, Environment: []string{"REGION=eu-central-1"}})
	_, err := processes.Endpoint(t.Context(), "f")
	var stopped *pipeline.NotRunningError
	if !errors.As(err, &stopped) || strings.TrimSpace(stopped.Output) != "[REGION=eu-central-1 "+life+"=environment]" {
		t.Errorf("got %v", err)
	}
}

func TestAProgramThatDoesNotExist(t *testing.T) {
	processes := pipeline.NewProcesses(pipeline.ProcessOptions{MinBackoff: time.Hour})
	defer processes.Close()
	processes.Start("f", "/nowhere/at/all")
	if _, err := processes.Endpoint(t.Context(), "f"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("want an error, got %v", err)
	}
}

func TestAProgramThatDoesNotListen(t *testing.T) {
	_, processes := started(t, "deaf", pipeline.ProcessOptions{MinBackoff: time.Hour, StartTimeout: 50 * time.Millisecond})
	if _, err := processes.Endpoint(t.Context(), "f"); err == nil || !strings.Contains(err.Error(), "did not accept connections in time") {
		t.Errorf("want an error, got %v", err)
	}
}

func TestAProgramThatStartsIsWaitedFor(t *testing.T) {
	_, processes := started(t, "deaf", pipeline.ProcessOptions{GracePeriod: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := processes.Endpoint(ctx, "f"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want to wait, got %v", err)
	}
}

func TestAProgramThatWillNotEnd(t *testing.T) {
	runner, processes := started(t, "stubborn", pipeline.ProcessOptions{GracePeriod: 20 * time.Millisecond})
	if _, err := runner.Run(t.Context(), "f", &request{}); err != nil {
		t.Fatal(err)
	}
	endpoint, err := processes.Endpoint(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	processes.Close()
	if accepts(strings.TrimPrefix(endpoint.Target, "passthrough:///")) {
		t.Error("want it gone")
	}
}

func TestAProgramTakesItsChildrenAlong(t *testing.T) {
	runner, processes := started(t, "parent", pipeline.ProcessOptions{GracePeriod: 5 * time.Second})
	answer, err := runner.Run(t.Context(), "f", &request{})
	if err != nil {
		t.Fatal(err)
	}
	child := answer.GetMeta().GetTag()
	until(t, "the program's child listens", func() bool { return accepts(child) })
	processes.Close()
	until(t, "the program's child is gone", func() bool { return !accepts(child) })
}

func TestAProgramEndsWithUsHoweverWeEnd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends children of a program that is killed")
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), life+"=starter")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(line)
	if !accepts(address) {
		t.Errorf("want %s to accept", address)
	}
	_ = command.Process.Kill()
	_ = command.Wait()
	until(t, "the function is gone", func() bool { return !accepts(address) })
}

func TestAPipelineOfAProgram(t *testing.T) {
	runner, _ := started(t, "good", pipeline.ProcessOptions{})
	p := &pipeline.Pipeline{Runner: pipeline.NewCache(runner, func(string) string { return "" }, 1<<20, time.Now)}
	out := p.Run(t.Context(), []pipeline.Step{{Name: "one", Function: "f"}, {Name: "two", Function: "missing"}}, world(t))
	if out.Failure == nil || out.Failure.Step != "two" || out.Failure.Error() != `step "two" (function missing): there is no function "missing": create the Function missing, or serve it with --function missing=./program` {
		t.Errorf("want the second step to fail, got %v", out.Failure)
	}
}
