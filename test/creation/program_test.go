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

// log is what a program prints, from several goroutines.
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

// TestAProviderIsAProgramOfItsOwn serves a provider by its flags alone, with no other
// controllers, and hands over to another such program.
func TestAProviderIsAProgramOfItsOwn(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := life{world: testkit.NewCluster(t, config), config: config, sky: newCloud(cloud.Behaviour{}), policies: []string{"*"}}
	ns := testkit.Namespace(t, config)
	args := []string{
		"--kubeconfig", testkit.Kubeconfig(t, config), "--leader-election-namespace", ns, "--leader-elect-lease-duration", "2s",
		"--health-probe-bind-address", "0", "--metrics-bind-address", "0",
	}
	var out log
	for _, name := range []string{"first-" + ns, "second-" + ns} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- serve.Run(ctx, sandbox.Provider(l.sky), args, &out) }()
		l.applyBucket(t, ns, name, false)
		l.world.Await(t, bucket, ns, name, isBound)
		l.world.Delete(t, bucket, ns, name)
		l.world.AwaitGone(t, bucket, ns, name)
		l.awaitCleared(t, ns, name)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v\n%s", err, out.String())
		}
	}
}

func TestAProviderRefusesWrongFlags(t *testing.T) {
	for args, words := range map[string]string{
		"--workers 0":     "at least one worker",
		"--nothing-known": "not defined",
		"something":       "takes flags only",
		"--poll 10ms":     "once in a second",
	} {
		var out log
		if err := serve.Run(t.Context(), sandbox.Provider(nil), strings.Fields(args), &out); err == nil || !strings.Contains(out.String(), words) {
			t.Errorf("%s: %v: %s", args, err, out.String())
		}
	}
}
