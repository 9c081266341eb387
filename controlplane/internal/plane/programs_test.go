//go:build !assets

package plane

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdmain"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// TestMain makes the test's own program, under their names, etcd, kube-apiserver and a control plane.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		if err := app.NewAPIServerCommand().Execute(); err != nil {
			os.Exit(1)
		}
	case "controlplane":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Run(ctx, Options{DataDir: os.Args[1]}, func(url string) { fmt.Println("ready", url) }); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// assets returns a directory with the programs of TestMain.
func assets(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "controlplane"} {
		if err := os.Symlink(self, filepath.Join(directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// startWith starts a control plane with the programs of a directory, and returns it with its first line.
func startWith(t *testing.T, assets, data string) (cmd *exec.Cmd, line string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), filepath.Join(assets, "controlplane"), data)
	cmd.Env = append(os.Environ(), AssetsVariable+"="+assets)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, line
}

// TestProgramsOfTheEnvironmentAreUsed starts a control plane with other programs, kills it with them, and starts and stops it
// again with what it has stored.
func TestProgramsOfTheEnvironmentAreUsed(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts API servers")
	}
	programs, data := assets(t), filepath.Join(t.TempDir(), "data")
	start := func() (*exec.Cmd, kubernetes.Interface) {
		cmd, line := startWith(t, programs, data)
		if !strings.HasPrefix(line, "ready https://127.0.0.1:") {
			log, _ := os.ReadFile(filepath.Join(data, "controlplane.log"))
			t.Fatalf("%s%s", line, log[max(0, len(log)-4000):])
		}
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(data, "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		return cmd, kubernetes.NewForConfigOrDie(config)
	}
	cmd, client := start()
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed

	cmd, client = start()
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	home, err := openHome(t.Context(), data, func(message string) { t.Error(message) }) // none of the programs has its lock
	if err != nil {
		t.Fatal(err)
	}
	home.close()
}

func TestAMissingProgramIsNamed(t *testing.T) {
	programs := assets(t)
	if err := os.Remove(filepath.Join(programs, "etcd")); err != nil {
		t.Fatal(err)
	}
	cmd, line := startWith(t, programs, filepath.Join(t.TempDir(), "data"))
	_ = cmd.Wait() // the line says how it ended
	if !strings.Contains(line, "etcd: KUBEBUILDER_ASSETS is set, and its program does not start: ") {
		t.Error(line)
	}
}
