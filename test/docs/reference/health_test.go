package reference

import (
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// Each row of the table of readiness on nodes.md names a kind, what makes it ready, an object
// that is not, and what is said of that.
const (
	kindCell    = 0
	unreadyCell = 2
	messageCell = 3
)

// TestReadinessOfEveryKindIsOnThePage computes the readiness of the objects on nodes.md, and looks
// for kinds with rules of their own that are not there.
func TestReadinessOfEveryKindIsOnThePage(t *testing.T) {
	p, changed := load(t, "nodes.md"), false
	var told []schema.GroupKind
	for _, r := range p.rows() {
		if r.heading != "What counts as ready" || len(r.cells) != messageCell+1 {
			continue
		}
		for _, name := range codes(r.cells[kindCell]) {
			kind, group, _ := strings.Cut(name, ".")
			told = append(told, schema.GroupKind{Group: group, Kind: kind})
		}
		samples, messages := codes(r.cells[unreadyCell]), codes(r.cells[messageCell])
		if len(samples) == 0 {
			continue // nothing makes it unready
		}
		o := objectOf(t, p.name, samples[0])
		if len(told) > 0 && o.GetKind() == "" {
			of := told[len(told)-1]
			o.SetGroupVersionKind(of.WithVersion("v1"))
		}
		got := health.Of(o)
		if got.Ready {
			t.Errorf("nodes.md:%d: the object is ready", r.line+1)
		}
		if slices.Equal(messages, []string{got.Message}) {
			continue
		}
		if !golden.Update() {
			t.Errorf("nodes.md:%d: it is %q, and the page says %v", r.line+1, got.Message, messages)
			continue
		}
		r.cells[messageCell] = code(got.Message)
		p.lines[r.line], changed = "| "+strings.Join(r.cells, " | ")+" |", true
	}
	if changed {
		p.save(t)
	}
	all := []schema.GroupVersionKind{{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		all = append(all, gvk)
	}
	for _, gvk := range all {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetGroupVersionKind(gvk)
		if status.GetLegacyConditionsFn(o) != nil && gvk.Group != "extensions" && !slices.Contains(told, gvk.GroupKind()) {
			t.Errorf("nodes.md does not say when a %s is ready", gvk.GroupKind())
		}
	}
}
