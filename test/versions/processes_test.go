package versions

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestAProcessThatIsNotTheLeaderConverts runs two processes; the API server reaches the one that is
// not the leader.
func TestAProcessThatIsNotTheLeaderConverts(t *testing.T) {
	w := newStoppedProgram(t, testkit.ExclusiveServer(t))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	noError(t, err)
	address := listener.Addr().String()
	noError(t, listener.Close())
	elected := func(listen string, ready chan<- struct{}) server.ManagerOptions {
		return server.ManagerOptions{
			Options: manager.Options{LeaderElection: true, LeaderElectionNamespace: w.ns, Ready: ready},
			Webhook: &webhook.Options{Address: listen, URL: "https://" + address, Store: w.dir},
		}
	}
	leads := make(chan struct{})
	stopLeader, _ := w.process(t, elected("127.0.0.1:0", leads))
	defer stopLeader()
	<-leads
	follows := make(chan struct{})
	stopOther, _ := w.process(t, elected(address, follows))
	defer stopOther()

	w.put(t, definition(both))
	w.AwaitReady(t, rgd, "", w.group)
	testkit.Poll(t, "an instance of the old version is created", func() bool {
		_, err := w.TryApply(t, testkit.Parse(t, w.text(strings.ReplaceAll(old, "$NAME", "a")))[0])
		return err == nil
	})
	w.awaitData(t, "a", map[string]string{"replicas": "5"})
	select {
	case <-follows:
		t.Fatal("both processes are leaders")
	default:
	}
	// The one takes over from the other.
	stopLeader()
	noError(t, w.patch(t, "v1alpha1", "a", map[string]any{"spec": map[string]any{"size": "small"}}))
	w.awaitData(t, "a", map[string]string{"replicas": "1"})
}

// TestConversionAfterARestartOfTheAPIServer restarts the API server while the program runs.
func TestConversionAfterARestartOfTheAPIServer(t *testing.T) {
	options := embedded.Options{DataDir: filepath.Join(t.TempDir(), "data"), NoFsync: true}
	start := func() *embedded.ControlPlane {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		plane, err := embedded.Start(ctx, options)
		noError(t, err)
		return plane
	}
	stop := func(plane *embedded.ControlPlane) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := plane.Stop(ctx); err != nil {
			t.Errorf("the API server stopped with %v", err)
		}
	}
	plane := start()
	t.Cleanup(func() { stop(plane) })
	w := newStoppedProgram(t, plane.Config())
	w.start(t, true)
	w.put(t, definition(both))
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, strings.ReplaceAll(old, "$NAME", "a"))
	w.AwaitReady(t, w.kind("v1"), w.ns, "a")

	stop(plane)
	plane = start()
	testkit.PollFor(t, time.Minute, "the old version is served again", func() bool {
		return w.patch(t, "v1alpha1", "a", map[string]any{"spec": map[string]any{"image": "2"}}) == nil
	})
	w.awaitData(t, "a", map[string]string{"image": "2", "replicas": "5"})
	if o := w.in(t, "v1alpha1", "a"); spec(o, "legacy") != "l" {
		t.Errorf("in v1alpha1 the instance is %s", testkit.JSON(o))
	}
	noError(t, w.apps("v1alpha1").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	w.AwaitGone(t, configMap, w.ns, "a")
}
