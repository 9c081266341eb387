package crash

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// setFinalizers returns how to set a ConfigMap's finalizers.
func setFinalizers(t *testing.T, w *testkit.Cluster, ns, name string) func(finalizers ...string) {
	return func(finalizers ...string) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		if err != nil {
			t.Fatal(err)
		}
		w.Patch(t, suite.ConfigMap, ns, name, string(body))
	}
}

// blockedChain is a chain that is being deleted while a finalizer keeps a child of it.
type blockedChain struct {
	ns string
	// guard sets the finalizers of the child.
	guard func(finalizers ...string)
	// writes are what has been written to the chain since the controllers stopped.
	writes watch.Interface
}

// blockChain makes a blocked chain, and stops the controllers as soon as its status says
// what it should.
func blockChain(t *testing.T, config *rest.Config, w *testkit.Cluster, child string, says func(*report.Deletion) bool) blockedChain {
	t.Helper()
	stop := steps.Run(t, config)
	defer stop()
	steps.Define(t, w)
	ns := testkit.Namespace(t, config)
	steps.Apply(steps.Chain)(t, w, ns)
	steps.AwaitReady(steps.Kind("Chain"), "one")(t, w, ns)
	guard := setFinalizers(t, w, ns, child)
	guard("example.com/guard")
	w.Delete(t, steps.Kind("Chain"), ns, "x")
	last := w.Await(t, steps.Kind("Chain"), ns, "x", func(o *unstructured.Unstructured) error {
		if d := report.ReadDeletion(o); d == nil || !says(d) {
			return errors.New("the status doesn't say it yet")
		}
		return nil
	})
	stop()
	writes, err := w.Resource(t, steps.Kind("Chain"), ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: last.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(writes.Stop)
	return blockedChain{ns, guard, writes}
}

// eachWrite calls a function with the chain as it is after each write of the next eight
// seconds.
func (b blockedChain) eachWrite(see func(*unstructured.Unstructured)) {
	for end := time.After(8 * time.Second); ; {
		select {
		case e := <-b.writes.ResultChan():
			o, _ := e.Object.(*unstructured.Unstructured)
			see(o)
		case <-end:
			return
		}
	}
}

// namesManagers reports whether the first blocker names the manager that set the finalizer.
func namesManagers(d *report.Deletion) bool {
	return d != nil && len(d.Blockers) > 0 && len(d.Blockers[0].Finalizers) > 0 && len(d.Blockers[0].Finalizers[0].Managers) > 0
}

// TestARestartDoesNotChangeTheStatusOfABlockedDeletion blocks a deletion by a finalizer of a
// child, waits until that is reported, and restarts the controllers.
func TestARestartDoesNotChangeTheStatusOfABlockedDeletion(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	b := blockChain(t, config, w, "x-a", func(d *report.Deletion) bool { return namesManagers(d) && d.Progress == "4/5" })
	defer steps.Run(t, config)()
	b.eachWrite(func(o *unstructured.Unstructured) {
		text, _ := json.Marshal(report.ReadDeletion(o))
		t.Errorf("the restart wrote: %s", text)
	})
	if !namesManagers(report.ReadDeletion(w.Get(t, steps.Kind("Chain"), b.ns, "x"))) {
		t.Error("eight seconds later nobody knows who put the finalizer on")
	}
	b.guard()
	w.AwaitGone(t, steps.Kind("Chain"), b.ns, "x")
}

// slowConfigMaps makes reads of ConfigMaps take three seconds, as tens of thousands would.
type slowConfigMaps struct{ next http.RoundTripper }

func (s slowConfigMaps) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps") {
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
		}
	}
	return s.next.RoundTrip(r)
}

// TestASlowRestartDoesNotChangeTheStatusOfABlockedDeletion restarts the controllers while a
// deletion is blocked, and delays the reads of the children.
func TestASlowRestartDoesNotChangeTheStatusOfABlockedDeletion(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	b := blockChain(t, config, w, "x-b", func(d *report.Deletion) bool { return d.Progress == "3/5" && d.Blocked == 1 })
	slow := rest.CopyConfig(config)
	slow.Wrap(func(next http.RoundTripper) http.RoundTripper { return slowConfigMaps{next} })
	defer steps.Run(t, slow)()
	b.eachWrite(func(o *unstructured.Unstructured) {
		if d := report.ReadDeletion(o); d.Progress != "3/5" {
			t.Errorf("three of five are gone: the restart wrote %s, %d%%, %d blockers; Ready says %s", d.Progress, d.Percent, len(d.Blockers), testkit.ConditionMessage(o, "Ready"))
		}
	})
	b.guard()
	w.AwaitGone(t, steps.Kind("Chain"), b.ns, "x")
}
