package cli

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// leaseAcquired is logged when a program has become the leader.
const leaseAcquired = "Successfully acquired lease"

// TestDocumentedPrograms starts each documented program that runs until it is interrupted, and that no other test starts.
func TestDocumentedPrograms(t *testing.T) {
	needsControlPlane(t)
	plane, err := embedded.Find()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ESPALIER_CONTROLPLANE", plane)
	h := newHome(t, "")
	t.Run("in a cluster", func(t *testing.T) { runInACluster(t, h) })
	t.Run("with PostgreSQL", func(t *testing.T) {
		up := h.start(t, "up --postgresql", "ready")
		defer up.stop(t)
		config := "KUBECONFIG=" + filepath.Join(string(h), ".local", "share", "espalier", "kubeconfig")
		testkit.Poll(t, "its kinds are served", func() bool { // the API server publishes schemas after it serves the kinds
			code, out := h.run(t, "schema databases.postgresql.espalier.dev", "", config)
			return code == exitDone && strings.Contains(out, `"Database"`)
		})
	})
	t.Run("with a collector of traces", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r, server := received{exports: make(chan *collector.ExportTraceServiceRequest, 1000)}, grpc.NewServer()
		collector.RegisterTraceServiceServer(server, r)
		go func() { _ = server.Serve(listener) }()
		defer server.Stop()
		const text = "up --sandbox --tracing-endpoint http://127.0.0.1:4317"
		up := h.start(t, strings.Replace(text, "127.0.0.1:4317", listener.Addr().String(), 1), "ready")
		defer up.stop(t)
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(string(h), ".local", "share", "espalier", "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		testkit.NewCluster(t, config).Apply(t, "{apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, metadata: {name: photos, namespace: default}, spec: {forProvider: {region: main}}}")
		select {
		case export := <-r.exports:
			if got := export.GetResourceSpans()[0].GetResource().String(); !strings.Contains(got, `"espalier"`) {
				t.Errorf("the resource is %s", got)
			}
		case <-time.After(testkit.Timeout):
			t.Error("nothing is exported")
		}
	})
}

// runInACluster runs what is documented for clusters that exist: one after the other becomes the leader.
func runInACluster(t *testing.T, h home) {
	plane, err := embedded.Start(t.Context(), embedded.Options{DataDir: filepath.Join(string(h), "cluster"), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "espalier-system"}}
	if _, err := kubernetes.NewForConfigOrDie(plane.Config()).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	env := "KUBECONFIG=" + plane.Kubeconfig()
	if code, out := h.run(t, "run --check", "", env); code != exitDone || !strings.Contains(out, "Nothing prevents the installation of these CustomResourceDefinitions. ") {
		t.Errorf("exit code %d: %s", code, out)
	}
	const anyPort = " --metrics-bind-address 127.0.0.1:0 --health-probe-bind-address 127.0.0.1:0"
	for _, text := range []string{
		"run --leader-election-namespace espalier-system",
		"run --dialects graph,composition --leader-election-namespace espalier-system",
		"provider run postgresql --leader-election-namespace espalier-system",
	} {
		h.start(t, text+anyPort, leaseAcquired, env).stop(t)
	}
}

// started is a documented program that runs.
type started struct {
	cmd   *exec.Cmd
	text  string
	out   calm
	ended chan struct{}
}

// start starts a program, and waits until it prints a text.
func (h home) start(t *testing.T, text, until string, env ...string) *started {
	t.Helper()
	s := &started{cmd: h.command(context.WithoutCancel(t.Context()), text, env...), text: text, ended: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // stop reads how it has ended
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // if the test has failed before stop
		<-s.ended
	})
	testkit.Poll(t, "espalier "+text+" prints "+until, func() bool {
		select {
		case <-s.ended:
			t.Fatalf("espalier %s: %s\n%s", text, s.cmd.ProcessState, s.out.String())
		default:
		}
		return strings.Contains(s.out.String(), until)
	})
	return s
}

// stop interrupts the program, which must end without an error.
func (s *started) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if code := s.cmd.ProcessState.ExitCode(); code != exitDone {
		t.Errorf("espalier %s: exit code %d\n%s", s.text, code, s.out.String())
	}
}
