package embedded

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// patience bounds every wait of these tests; a start takes about two seconds.
const patience = 90 * time.Second

// orphanVariable makes the test binary play the parent that dies; see TestChildEndsWithItsParent.
const orphanVariable = "ESPALIER_TEST_ORPHAN_DATA"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanVariable); dir != "" {
		playParent(dir)
	}
	m.Run()
}

func TestRestartKeepsObjectsAndAddress(t *testing.T) {
	needsServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()

	first := mustStart(t, ctx, dir)
	client := kubernetes.NewForConfigOrDie(first.Config()).CoreV1().ConfigMaps("default")
	if _, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(ctx, Options{DataDir: dir}); err == nil || !strings.Contains(err.Error(), "another control plane") {
		t.Errorf("a second start on the same data: %v", err)
	}
	for range 2 { // the second finds nothing left to do
		if err := first.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-first.Done():
	default:
		t.Error("stopped, but not done")
	}

	second := mustStart(t, ctx, dir)
	if second.Config().Host != first.Config().Host {
		t.Errorf("served on %s, then on %s", first.Config().Host, second.Config().Host)
	}
	// The configuration from before the restart is good still.
	if _, err := client.Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestStopReportsAChildThatEndedByItself(t *testing.T) {
	needsServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := mustStart(t, ctx, t.TempDir())
	if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Stop(ctx); err == nil {
		t.Error("no error")
	}
}

// A parent that is killed runs no code any more; its child must end all the same.
func TestChildEndsWithItsParent(t *testing.T) {
	needsServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	parent := exec.CommandContext(ctx, os.Args[0])
	parent.Env = append(os.Environ(), orphanVariable+"="+t.TempDir())
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // says only that it was killed

	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for alive(child) {
		select {
		case <-every.C:
		case <-ctx.Done():
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatal("the child lives on")
		}
	}
}

// needsServer is testkit.NeedsServer, which imports this package.
func needsServer(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; run it without -short")
	}
}

// alive reports whether a process runs. One that ended stays as a zombie until it is waited for,
// and whoever inherits it may be slow to.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// playParent starts a control plane, prints its process id, and waits to be killed.
func playParent(dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := Start(ctx, Options{DataDir: dir, NoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.PID())
	<-ctx.Done()
	os.Exit(1)
}

func mustStart(t *testing.T, ctx context.Context, dir string) *ControlPlane {
	t.Helper()
	if _, err := Find(); err != nil {
		t.Fatal(err)
	}
	c, err := Start(ctx, Options{DataDir: dir, NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) }) // what it says matters to no one any more
	return c
}
