package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestFunctionFlags(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, mode := range map[string]os.FileMode{"program": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		given []string
		certs bool
		want  map[string]packages.LocalFunction
		says  string
	}{
		"A program":                              {given: []string{"f=./program"}, want: map[string]packages.LocalFunction{"f": {Program: filepath.Join(dir, "program")}}},
		"A program with an absolute path":        {given: []string{"f=" + filepath.Join(dir, "program")}, want: map[string]packages.LocalFunction{"f": {Program: filepath.Join(dir, "program")}}},
		"An address":                             {given: []string{"f=127.0.0.1:9443", "g=localhost:1"}, want: map[string]packages.LocalFunction{"f": {Address: "127.0.0.1:9443"}, "g": {Address: "localhost:1"}}},
		"A Unix socket":                          {given: []string{"f=unix:/run/f"}, want: map[string]packages.LocalFunction{"f": {Address: "unix:/run/f"}}},
		"An address of another machine":          {given: []string{"f=192.0.2.1:9443"}, says: "192.0.2.1:9443 is not on this machine, and calls of it are not encrypted. Call it by mutual TLS (--function f=grpcs://192.0.2.1:9443), or run the program here (--function f=./program)"},
		"A host name that begins with localhost": {given: []string{"f=localhost.example.org:9443"}, says: "is not on this machine"},
		"A program without a path":               {given: []string{"f=program"}, says: "for a program, give its path: ./program"},
		"A program that does not exist":          {given: []string{"f=./nothing"}, says: "no such file"},
		"A file that is not executable":          {given: []string{"f=./text"}, says: "is not a program"},
		"A directory":                            {given: []string{"f=" + dir}, says: "is not a program"},
		"An invalid name":                        {given: []string{"F_1=./program"}, says: `"F_1" can't be a Function's name`},
		"No name":                                {given: []string{"./program"}, says: "must be NAME=HOST:PORT, NAME=grpcs://HOST:PORT or NAME=./program"},
		"A name twice":                           {given: []string{"f=./program", "f=127.0.0.1:1"}, says: "f is given twice"},
		"The name of a built-in function":        {given: []string{"function-auto-ready=127.0.0.1:1"}, want: map[string]packages.LocalFunction{"function-auto-ready": {Address: "127.0.0.1:1"}}},
		"No address":                             {given: []string{"f="}, says: "must be NAME=HOST:PORT"},
		"No flag":                                {want: map[string]packages.LocalFunction{}},
		"An address with TLS":                    {given: []string{"f=grpcs://f.example.org:9443"}, certs: true, want: map[string]packages.LocalFunction{"f": {Address: "f.example.org:9443", TLS: true}}},
		"An address with TLS and no certificate": {given: []string{"f=grpcs://f.example.org:9443"}, says: "need a client certificate: --function-certs DIRECTORY"},
		"An address with TLS and a path":         {given: []string{"f=grpcs://f.example.org:9443/x"}, certs: true, says: "must be grpcs://HOST:PORT"},
		"A port without a host":                  {given: []string{"f=:9443"}, says: "is not on this machine"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var o packages.Options
			if tc.certs {
				o.Certificates = func() (pipeline.Identity, error) { return pipeline.Identity{}, nil }
			}
			err := addPrograms(&o, server.FunctionsConfiguration{Local: tc.given}, nil)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) || codeOf(err) != exitUsage {
					t.Errorf("want %q, got %v", tc.says, err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, o.Local); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestCertificatesForFunctions(t *testing.T) {
	o := packages.Options{Certificates: pipeline.CertificatesFromDirectory(t.TempDir())}
	err := addPrograms(&o, server.FunctionsConfiguration{}, nil)
	if err == nil || !strings.Contains(err.Error(), "no such file") || codeOf(err) != exitUsage {
		t.Errorf("a directory without certificates: %v", err)
	}
}

func TestProgramsPrintWholeLines(t *testing.T) {
	var out bytes.Buffer
	to := &prefixWriter{to: &out}
	a, b := to.forProgram("a"), to.forProgram("b")
	for _, part := range []string{"on", "e\ntwo\n", "three"} {
		if n, err := a.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
		_, _ = b.Write([]byte("x\n"))
	}
	_, _ = b.Write(bytes.Repeat([]byte("y"), maxLine))
	want := "b | x\na | one\na | two\nb | x\nb | x\nb | " + strings.Repeat("y", maxLine) + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// calm is a buffer for several goroutines.
type calm struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *calm) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *calm) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// TestUpRunsFunctions serves a function by a program, as its author does.
func TestUpRunsFunctions(t *testing.T) {
	needsControlPlane(t)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	t.Setenv(functionEnv, "1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lines{come: make(chan string, 64)}
	var failed calm
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"up", "--data-dir", filepath.Join(dir, "data"), "--write-kubeconfig", kubeconfig, "--function", "mine=" + os.Args[0], "--function-env", functionEnv}, out, &failed)
	}()
	for line := ""; line != "ready"; {
		select {
		case line = <-out.come:
		case code := <-ended:
			t.Fatalf("ended with %d before it was ready: %s", code, failed.String())
		case <-time.After(time.Minute):
			t.Fatal("not ready")
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	w := testkit.NewCluster(t, config)
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: mine}, spec: {package: example.org/mine:v1}}")
	o := w.Await(t, packages.FunctionKind, "", "mine", func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionReason(o, "Healthy"); got != "HealthyPackageRevision" {
			return &codedError{message: "Healthy is " + got}
		}
		return nil
	})
	if got := testkit.ConditionMessage(o, "Installed"); !strings.Contains(got, os.Args[0]) {
		t.Errorf("it says %s", got)
	}
	testkit.Poll(t, "the program's output is printed", func() bool { return strings.Contains(failed.String(), "mine | started\n") })
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("ended with %d: %s", code, failed.String())
	}
}
