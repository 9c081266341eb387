package crash

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

func TestARestartWritesNothing(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	stop := steps.Run(t, config)
	steps.Define(t, w)
	ns := testkit.Namespace(t, config)
	everything := func(ns string) {
		steps.Apply(steps.Chain+"---\n"+steps.Top+"---\n"+steps.Five+"---\n"+store)(t, w, ns)
		steps.Apply(steps.Late)(t, w, ns)
		steps.AwaitReady(steps.Kind("Chain"), "one")(t, w, ns)
		steps.AwaitReady(steps.Kind("Top"), "here")(t, w, ns)
		steps.AwaitComposed("one", 5, 0)(t, w, ns)
		awaitConnected("one")(t, w, ns)
	}
	nested := func(ns string) {
		steps.All(steps.Apply(high), supplyLate, steps.AwaitReady(steps.Kind("High"), "here"))(t, w, ns)
	}
	under := testkit.Namespace(t, config)
	everything(ns)
	nested(under)
	stop()
	outside := recordClaims(t, w)

	recorded, writes := recordWrites(config)
	stop = steps.Run(t, recorded)
	defer stop()
	// Existing objects are reconciled before the following new ones: their keys were added to the
	// queues before, by the first list.
	elsewhere, besides := testkit.Namespace(t, config), testkit.Namespace(t, config)
	everything(elsewhere)
	nested(besides)
	changed := outside(ns, under)
	for _, line := range writes() {
		new := strings.Contains(line, "/"+elsewhere+"/") || strings.Contains(line, "/"+besides+"/")
		outside := strings.Contains(line, "/sweep.example.com/v1alpha1/x") || strings.Contains(line, "/middles/") || strings.Contains(line, "/default/")
		if !new && !outside && !steps.InOtherNamespace(line, ns, under) {
			t.Error("the restart wrote:", line)
		}
	}
	for _, what := range changed {
		t.Error("the restart changed:", what)
	}
}

// recordWrites returns a configuration whose writes are recorded, and a function that returns them so far.
func recordWrites(config *rest.Config) (recorded *rest.Config, writes func() []string) {
	var (
		mu  sync.Mutex
		all []string
	)
	crash := testkit.NewCrash(0) // which never crashes
	crash.Log = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, line)
	}
	return crash.Wrap(config), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// recordClaims records the objects of claims outside of their namespaces. It returns a function that
// lists which of them have changed since, for the claims of the given namespaces.
func recordClaims(t *testing.T, w *testkit.Cluster) (changed func(namespaces ...string) []string) {
	t.Helper()
	kinds := []schema.GroupVersionKind{steps.Kind("XStore"), steps.Kind("XHigh"), steps.Kind("Middle"), suite.Secret}
	was := map[types.UID]string{}
	look := func(each func(o *unstructured.Unstructured)) {
		for _, gvk := range kinds {
			list := w.List(t, gvk, metav1.NamespaceDefault, "")
			for i := range list {
				each(&list[i])
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

// reads waits with reads of a path until they are released.
type reads struct {
	next    http.RoundTripper
	path    string
	release <-chan struct{}
}

func (p reads) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, p.path) {
		select {
		case <-p.release:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return p.next.RoundTrip(r)
}

// TestARestartDoesNotChangeTheStatusOfANameConflict restarts the controllers while the ConfigMap of an instance belongs to an instance of
// another kind, which they read again.
func TestARestartDoesNotChangeTheStatusOfANameConflict(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	rival := schema.GroupVersionKind{Group: "rival." + group, Version: "v1alpha1", Kind: "Box"}
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	create := func(kind schema.GroupVersionKind, name string) {
		t.Helper()
		w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: %s, namespace: %s}\nspec: {a: one}\n", kind.Group, name, ns))
	}
	stop := steps.Run(t, config)
	for _, kind := range []schema.GroupVersionKind{rival, box} {
		w.Apply(t, boxDefinition(kind.Group, "one", ""))
		w.AwaitReady(t, suite.RGD, "", kind.Group)
	}
	create(rival, "contested")
	w.AwaitReady(t, rival, ns, "contested")
	create(box, "contested")
	w.Await(t, box, ns, "contested", func(o *unstructured.Unstructured) error {
		if message := testkit.ConditionMessage(o, "ResourcesReady"); !strings.Contains(message, "already exists and belongs to") {
			return errors.New(message)
		}
		return nil
	})
	stop()

	recorded, writes := recordWrites(config)
	release := make(chan struct{})
	recorded.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return reads{next, "/apis/" + rival.Group + "/", release}
	})
	defer steps.Run(t, recorded)()
	create(box, "after") // it is reconciled after the one that exists
	w.AwaitReady(t, box, ns, "after")
	close(release)
	create(rival, "later")
	w.AwaitReady(t, rival, ns, "later")
	for _, line := range writes() {
		if strings.Contains(line, "/boxes/contested/status") {
			t.Error("the restart wrote:", line)
		}
	}
}
