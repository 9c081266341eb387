package pipeline_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// life is the variable that makes a function program of the test's own program, of one
// of the sorts below.
const life = "ESPALIER_TEST_FUNCTION"

func TestMain(m *testing.M) {
	switch os.Getenv(life) {
	case "":
		os.Exit(m.Run())
	case "good":
		function.Main(pid)
	case "dying":
		fmt.Fprintln(os.Stderr, "there is no configuration")
		os.Exit(3)
	case "crashing":
		function.Main(func(_ context.Context, r *request) (*response, error) {
			fmt.Fprintln(os.Stderr, "cannot log in with "+r.GetMeta().GetTag())
			os.Exit(3)
			return nil, nil
		})
	case "environment":
		fmt.Fprintln(os.Stderr, os.Environ())
		os.Exit(3)
	case "deaf":
		<-time.After(time.Hour) // without any event, the runtime would end it
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		_ = function.Run(context.Background(), pid, os.Args[1:], os.Stderr)
	case "parent":
		parent()
	case "starter":
		starter()
	}
}

// pid answers with the program's process id.
func pid(context.Context, *request) (*response, error) {
	return &response{Meta: &fnv1.ResponseMeta{Tag: strconv.Itoa(os.Getpid())}}, nil
}

// parent is a function whose work is done by a child of its own. It answers with where
// the child listens.
func parent() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	address := listener.Addr().String()
	listener.Close()
	child := exec.Command(os.Args[0], "--insecure", "--address="+address)
	child.Env = append(os.Environ(), life+"=stubborn")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		panic(err)
	}
	function.Main(func(context.Context, *request) (*response, error) {
		return &response{Meta: &fnv1.ResponseMeta{Tag: address}}, nil
	})
}

// starter runs a function program and says where it is, until it is killed.
func starter() {
	processes := pipeline.NewProcesses(pipeline.ProcessOptions{Environment: []string{life + "=good"}})
	processes.Start("f", os.Args[0])
	endpoint, err := processes.Endpoint(context.Background(), "f")
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.TrimPrefix(endpoint.Target, "passthrough:///"))
	<-time.After(time.Hour)
}
