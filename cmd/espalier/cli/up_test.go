package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// lines collects what a command prints and tells when a line has come.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	come chan string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	for line := range strings.Lines(string(p)) {
		l.come <- strings.TrimSpace(line)
	}
	return len(p), nil
}

func TestUpServesAndKeepsWhatWasApplied(t *testing.T) {
	needsControlPlane(t)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	session := func(use func(client dynamic.Interface)) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		out := &lines{come: make(chan string, 64)}
		var failed bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- Main(ctx, []string{"up", "--data-dir", filepath.Join(dir, "data"), "--write-kubeconfig", kubeconfig}, out, &failed)
		}()
		for line := ""; line != "ready"; {
			select {
			case line = <-out.come:
			case code := <-ended:
				t.Fatalf("ended with %d before it was ready: %s", code, failed.String())
			case <-time.After(time.Minute):
				t.Fatalf("not ready: %s", failed.String())
			}
		}
		if want := "export KUBECONFIG=" + kubeconfig + "\n"; !strings.HasPrefix(out.text.String(), want) {
			t.Errorf("prints %q, not %q", out.text.String(), want)
		}
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		use(dynamic.NewForConfigOrDie(config))
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("ended with %d: %s", code, failed.String())
		}
	}
	// A manifest of early versions of kro: in a namespace, without an account.
	objects := testkit.Parse(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: kept, namespace: default}
spec:
  schema: {apiVersion: v1alpha1, kind: Kept}
  resources:
  - id: store
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: store}}
---
{apiVersion: kro.run/v1alpha1, kind: Kept, metadata: {name: kept, namespace: default}}
`)
	definitions, instances := v1alpha1.GroupVersion.WithResource("resourcegroups"), v1alpha1.GroupVersion.WithResource("kepts")
	stores := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	session(func(client dynamic.Interface) {
		if _, err := client.Resource(definitions).Namespace("default").Create(t.Context(), objects[0], metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		testkit.Poll(t, "the kind is served", func() bool {
			_, err := client.Resource(instances).Namespace("default").Create(t.Context(), objects[1], metav1.CreateOptions{})
			return err == nil
		})
		testkit.Poll(t, "the instance is reconciled", func() bool {
			_, err := client.Resource(stores).Namespace("default").Get(t.Context(), "store", metav1.GetOptions{})
			return err == nil
		})
	})
	session(func(client dynamic.Interface) {
		if _, err := client.Resource(instances).Namespace("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func TestUsageErrorsHaveTheirOwnExitCode(t *testing.T) {
	cases := map[string]struct {
		args []string
		code int
		says string
	}{
		"An unknown flag is a usage error":  {args: []string{"run", "--wrokers", "3"}, code: 2, says: "unknown flag: --wrokers"},
		"No workers are a usage error":      {args: []string{"run", "--workers", "0"}, code: 2, says: "workers: Invalid value: 0: must be at least 1"},
		"A missing kubeconfig is a failure": {args: []string{"run", "--kubeconfig", "/nowhere/at/all"}, code: 1, says: "/nowhere/at/all"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, failed bytes.Buffer
			if code := Main(t.Context(), tc.args, &out, &failed); code != tc.code || !strings.Contains(failed.String(), tc.says) {
				t.Errorf("ended with %d and %q", code, failed.String())
			}
		})
	}
}
