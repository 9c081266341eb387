package cli

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
)

func TestAHoldIsPrintedAsANote(t *testing.T) {
	l := newLayers(t)
	l.layer(t, "top", "")
	raw, err := espalier.CRDs.ReadFile("crds/espalier.dev_holds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	hold := espalier.GroupVersion.WithKind(espalier.HoldKind)
	l.Apply(t, string(raw))
	if _, _, errs := l.call(t, "tree", "top"); errs != "" {
		t.Errorf("without a Hold it says %q", errs)
	}
	h := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"reason": "a test"}}}
	h.SetGroupVersionKind(hold)
	h.SetName("of-" + l.namespace)
	if _, err := l.TryApply(t, h); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"tree", "blockers", "delete"} {
		code, _, errs := l.call(t, verb, "top")
		if code != 0 || !strings.Contains(errs, "note: the controllers are suspended by Hold "+h.GetName()+": a test\n") {
			t.Errorf("%s: exit code %d, %q", verb, code, errs)
		}
	}
	l.Delete(t, hold, "", h.GetName())
}
