package creation

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed/serve"
)

// log collects the output of a program, from several goroutines.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestAProviderRunsAsASeparateProgram runs a provider with its own flags and without the other
// controllers, and then another process of it.
func TestAProviderRunsAsASeparateProgram(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := lifecycle{cluster: testkit.NewCluster(t, config), config: config, cloud: newCloud(cloud.Behaviour{}), policies: []string{"*"}}
	l.cluster.FreeLeases(t)
	ns := testkit.Namespace(t, config)
	args := []string{
		"--kubeconfig", testkit.Kubeconfig(t, config), "--leader-election-namespace", ns, "--leader-elect-lease-duration", "2s",
		"--health-probe-bind-address", "0", "--metrics-bind-address", "0",
	}
	var out log
	for _, name := range []string{"first-" + ns, "second-" + ns} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- serve.Run(ctx, sandbox.Provider(l.cloud), args, &out) }()
		l.applyBucket(t, ns, name, false)
		l.cluster.Await(t, bucket, ns, name, isBound)
		l.cluster.Delete(t, bucket, ns, name)
		l.cluster.AwaitGone(t, bucket, ns, name)
		l.awaitNoBindings(t, ns, name)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the program ended with %v\n%s", err, out.String())
		}
	}
}

func TestAProviderRefusesInvalidFlags(t *testing.T) {
	for args, words := range map[string]string{
		"--workers 0":     "must be at least 1",
		"--nothing-known": "not defined",
		"something":       "only flags are accepted",
		"--poll 10ms":     "must be at least 1s",
	} {
		var out log
		if err := serve.Run(t.Context(), sandbox.Provider(nil), strings.Fields(args), &out); err == nil || !strings.Contains(out.String(), words) {
			t.Errorf("%s: %v: %s", args, err, out.String())
		}
	}
}
