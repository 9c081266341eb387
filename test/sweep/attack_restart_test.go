package sweep

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestAttackARestartDoesNotRewriteWhatABlockedDeletionTells holds a child by a
// finalizer, waits until all is told, and restarts the controllers.
func TestAttackARestartDoesNotRewriteWhatABlockedDeletionTells(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	stop := run(t, config)
	define(t, w)
	ns := testkit.Namespace(t, config)
	apply(chain)(t, w, ns)
	ready(kind("Chain"), "one")(t, w, ns)
	guard := func(finalizers ...string) {
		body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		if _, err := w.Of(t, configMap, ns).Patch(t.Context(), "x-a", types.MergePatchType, body, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
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
