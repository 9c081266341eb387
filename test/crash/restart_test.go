package crash

import (
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestARestartWritesNothing(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	stop := run(t, config)
	define(t, w)
	ns := testkit.Namespace(t, config)
	everything := func(ns string) {
		apply(chain+"---\n"+top+"---\n"+five+"---\n"+store)(t, w, ns)
		apply(late)(t, w, ns)
		ready(kind("Chain"), "one")(t, w, ns)
		ready(kind("Top"), "here")(t, w, ns)
		composed("one", 5, 0)(t, w, ns)
		connected("one")(t, w, ns)
	}
	nested := func(ns string) {
		both(both(apply(high), feed), ready(kind("High"), "here"))(t, w, ns)
	}
	under := testkit.Namespace(t, config)
	everything(ns)
	nested(under)
	stop()
	outside := remember(t, w)

	var (
		mu     sync.Mutex
		writes []string
	)
	crash := testkit.NewCrash(0)
	crash.Log = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		writes = append(writes, line)
	}
	stop = run(t, crash.Wrap(config))
	defer stop()
	// What was there before is looked at before what comes now: background work
	// of a kind's lane was queued earlier, by the first list.
	elsewhere, besides := testkit.Namespace(t, config), testkit.Namespace(t, config)
	everything(elsewhere)
	nested(besides)
	changed := outside(ns, under)
	mu.Lock()
	defer mu.Unlock()
	for _, line := range writes {
		new := strings.Contains(line, "/"+elsewhere+"/") || strings.Contains(line, "/"+besides+"/")
		outside := strings.Contains(line, "/sweep.example.com/v1alpha1/x") || strings.Contains(line, "/middles/") || strings.Contains(line, "/default/")
		if !new && !outside && !isOfOthers(line, ns, under) {
			t.Error("the restart wrote:", line)
		}
	}
	for _, what := range changed {
		t.Error("the restart changed:", what)
	}
}

// remember looks at what claims have outside of their namespaces. What it returns lists what
// of that has changed since, of some namespaces' claims.
func remember(t *testing.T, w *testkit.World) (changed func(namespaces ...string) []string) {
	t.Helper()
	kinds := []schema.GroupVersionKind{kind("XStore"), kind("XHigh"), kind("Middle"), secretKind}
	was := map[types.UID]string{}
	look := func(each func(o *unstructured.Unstructured)) {
		for _, gvk := range kinds {
			list, err := w.Of(t, gvk, metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				each(&list.Items[i])
			}
		}
	}
	look(func(o *unstructured.Unstructured) { was[o.GetUID()] = o.GetResourceVersion() })
	return func(namespaces ...string) (changed []string) {
		look(func(o *unstructured.Unstructured) {
			if slices.Contains(namespaces, o.GetLabels()["crossplane.io/claim-namespace"]) && was[o.GetUID()] != o.GetResourceVersion() {
				changed = append(changed, o.GetKind()+" "+o.GetName())
			}
		})
		return changed
	}
}

// isOfOthers says whether a request is about what is in the namespace of another test, which
// may just be going.
func isOfOthers(request string, own ...string) bool {
	_, rest, namespaced := strings.Cut(request, "/namespaces/test-")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespaced && !slices.Contains(own, "test-"+namespace)
}
