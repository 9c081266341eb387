package sweep

import (
	"encoding/json"
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

// slowly makes reads of ConfigMaps take three seconds, as tens of thousands would.
type slowly struct{ next http.RoundTripper }

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps") {
		time.Sleep(3 * time.Second)
	}
	return s.next.RoundTrip(r)
}

// TestAttackARestartOfMany restarts the controllers while a deletion is held, and
// reading the children takes a while.
func TestAttackARestartOfMany(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	stop := run(t, config)
	define(t, w)
	ns := testkit.Namespace(t, config)
	apply(chain)(t, w, ns)
	ready(kind("Chain"), "one")(t, w, ns)
	guard := func(finalizers ...string) {
		body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		if _, err := w.Of(t, configMap, ns).Patch(t.Context(), "x-b", types.MergePatchType, body, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
	guard("example.com/guard")
	w.Delete(t, kind("Chain"), ns, "x")
	time.Sleep(2 * time.Second)
	stop()
	told := w.Get(t, kind("Chain"), ns, "x")
	text, _ := json.Marshal(report.ReadDeletion(told))
	t.Logf("before: %s", text)
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
