package sharding

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var leaseKind = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}

// replicaLeases selects the Leases of replicas; the group's is among them.
const replicaLeases = "espalier.dev/replicas-of=espalier.espalier.dev"

// program is a process of bin/espalier.
type program struct {
	*exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
}

func (p *program) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

func (w *world) launch(t *testing.T, kubeconfig string) *program {
	t.Helper()
	return w.launchWithMetrics(t, kubeconfig, "0")
}

func (w *world) launchWithMetrics(t *testing.T, kubeconfig, address string) *program {
	t.Helper()
	path, err := filepath.Abs("../../bin/espalier")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	p := &program{Cmd: exec.Command(path, "run", "--sharding", "--kubeconfig", kubeconfig, "--leader-election-namespace", w.NS, "--leader-elect-lease-duration", "2s",
		"--health-probe-bind-address", "0", "--metrics-bind-address", address, "--introspection-socket", "0", "--admission-policies=false")}
	p.Stdout, p.Stderr = p, p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGCONT)
		_ = p.Process.Kill()
		_ = p.Wait()
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("process %d:\n%s", p.Process.Pid, p.log.String())
		}
	})
	return p
}

// awaitReplicas waits until so many replicas share the work: each knows all.
func (w *world) awaitReplicas(t *testing.T, n int) {
	t.Helper()
	w.AwaitList(t, leaseKind, w.NS, replicaLeases, func(all map[string]*unstructured.Unstructured) error {
		views := map[string]int{}
		for key, lease := range all {
			if key != w.NS+"/espalier.espalier.dev" {
				views[lease.GetAnnotations()["espalier.dev/view"]]++
			}
		}
		if len(views) == 1 {
			for _, count := range views {
				if count == n {
					return nil
				}
			}
		}
		return fmt.Errorf("the replicas work by the views %v", views)
	})
}

// TestProcessesAreKilledAndSuspended kills one of three processes with SIGKILL, and suspends another with SIGSTOP until the
// third has taken over all work.
func TestProcessesAreKilledAndSuspended(t *testing.T) {
	w := newWorld(t, 12)
	kubeconfig := testkit.Kubeconfig(t, w.Config)
	processes := []*program{w.launch(t, kubeconfig), w.launch(t, kubeconfig), w.launch(t, kubeconfig)}
	w.awaitReplicas(t, 3)
	w.Apply(t, suite.Graph("Thing", "spec: {value: string}, status: {value: '${second.data.value}'}", graph))
	w.AwaitDefinitions(t, "thing")
	w.createInstances(t, "Thing", "one")
	w.awaitValues(t, "one")

	began := time.Now()
	if err := processes[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.createInstances(t, "Thing", "two")
	w.awaitValues(t, "two")
	testkit.Report(t, "sharding: %s after a process was killed, its instances had the next value; the lease duration is 2 s", time.Since(began).Round(100*time.Millisecond))

	if err := processes[1].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.createInstances(t, "Thing", "three")
	w.awaitValues(t, "three")
	w.awaitReplicas(t, 1)
	if err := processes[1].Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.awaitReplicas(t, 2)
	w.createInstances(t, "Thing", "four")
	w.awaitValues(t, "four")
	if err := processes[2].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, ns := range w.namespaces {
		w.Delete(t, w.Kind("Thing"), ns, "x")
	}
	for _, ns := range w.namespaces {
		w.AwaitGone(t, w.Kind("Thing"), ns, "x")
		w.AwaitList(t, suite.ConfigMap, ns, "", func(all map[string]*unstructured.Unstructured) error {
			delete(all, ns+"/kube-root-ca.crt")
			if len(all) > 0 {
				return fmt.Errorf("%d ConfigMaps are left", len(all))
			}
			return nil
		})
	}
}
