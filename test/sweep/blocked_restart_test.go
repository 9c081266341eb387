package sweep

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// guarding returns how to set a ConfigMap's finalizers.
func guarding(t *testing.T, w *testkit.World, ns, name string) func(finalizers ...string) {
	return func(finalizers ...string) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Of(t, configMap, ns).Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestARestartWritesNothingOfADeletionThatIsBlocked holds a child by a
// finalizer, waits until all is told, and restarts the controllers.
func TestARestartWritesNothingOfADeletionThatIsBlocked(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	stop := run(t, config)
	define(t, w)
	ns := testkit.Namespace(t, config)
	apply(chain)(t, w, ns)
	ready(kind("Chain"), "one")(t, w, ns)
	guard := guarding(t, w, ns, "x-a")
	guard("example.com/guard")
	w.Delete(t, kind("Chain"), ns, "x")
	told := w.Await(t, kind("Chain"), ns, "x", func(o *unstructured.Unstructured) error {
		d := report.ReadDeletion(o)
		if d == nil || len(d.Blockers) == 0 || len(d.Blockers[0].Finalizers) == 0 || len(d.Blockers[0].Finalizers[0].Managers) == 0 || d.Progress != "4/5" {
			return errors.New("not told")
		}
		return nil
	})
	stop()
	watching, err := w.Of(t, kind("Chain"), ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: told.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	stop = run(t, config)
	defer stop()
	end := time.After(8 * time.Second)
	for over := false; !over; {
		select {
		case e := <-watching.ResultChan():
			o, _ := e.Object.(*unstructured.Unstructured)
			d := report.ReadDeletion(o)
			text, _ := json.Marshal(d)
			t.Errorf("the restart wrote: %s", text)
		case <-end:
			over = true
		}
	}
	watching.Stop()
	o := w.Get(t, kind("Chain"), ns, "x")
	if d := report.ReadDeletion(o); d == nil || len(d.Blockers) == 0 || len(d.Blockers[0].Finalizers) == 0 || len(d.Blockers[0].Finalizers[0].Managers) == 0 {
		t.Error("eight seconds later nobody knows who put the finalizer on")
	}
	guard()
	w.AwaitGone(t, kind("Chain"), ns, "x")
}

// slowly makes reads of ConfigMaps take three seconds, as tens of thousands would.
type slowly struct{ next http.RoundTripper }

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps") {
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
		}
	}
	return s.next.RoundTrip(r)
}

// TestARestartThatTakesLongWritesNothingOfADeletionThatIsBlocked restarts the controllers while a deletion is held, and
// reading the children takes a while.
func TestARestartThatTakesLongWritesNothingOfADeletionThatIsBlocked(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	stop := run(t, config)
	define(t, w)
	ns := testkit.Namespace(t, config)
	apply(chain)(t, w, ns)
	ready(kind("Chain"), "one")(t, w, ns)
	guard := guarding(t, w, ns, "x-b")
	guard("example.com/guard")
	w.Delete(t, kind("Chain"), ns, "x")
	told := w.Await(t, kind("Chain"), ns, "x", func(o *unstructured.Unstructured) error {
		if d := report.ReadDeletion(o); d == nil || d.Progress != "3/5" || d.Blocked != 1 {
			return errors.New("not told")
		}
		return nil
	})
	stop()
	watching, err := w.Of(t, kind("Chain"), ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: told.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	slow := rest.CopyConfig(config)
	slow.Wrap(func(next http.RoundTripper) http.RoundTripper { return slowly{next} })
	stop = run(t, slow)
	defer stop()
	end := time.After(8 * time.Second)
	for over := false; !over; {
		select {
		case e := <-watching.ResultChan():
			o, _ := e.Object.(*unstructured.Unstructured)
			d := report.ReadDeletion(o)
			if d.Progress != "3/5" {
				t.Errorf("three of five are gone: the restart wrote %s, %d%%, %d blockers; Ready says %s", d.Progress, d.Percent, len(d.Blockers), testkit.Message(o, "Ready"))
			}
		case <-end:
			over = true
		}
	}
	watching.Stop()
	guard()
	w.AwaitGone(t, kind("Chain"), ns, "x")
}
