package takeover

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/takeover"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

// rehearse is what the program says that it would do.
func rehearse(t *testing.T, config *rest.Config) server.Rehearsal {
	t.Helper()
	r, err := server.Rehearse(t.Context(), server.ManagerOptions{
		Options: manager.Options{Config: config, Log: logr.Discard(), Version: "test"}, Workers: 4, Dialects: server.Dialects, Usages: true,
	}, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if r.Unsettled || r.Refused != nil {
		t.Fatalf("unsettled: %t, refused: %v", r.Unsettled, r.Refused)
	}
	return r
}

// everything is all objects that a cluster stores, but for what Kubernetes itself keeps
// writing.
func everything(t *testing.T, w *testkit.World, config *rest.Config) map[object.Key]*unstructured.Unstructured {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	out := map[object.Key]*unstructured.Unstructured{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Kind == "Lease" || r.Kind == "Event" || r.Kind == "ComponentStatus" || r.Kind == "APIService" {
				continue
			}
			gv := strings.Split("/"+list.GroupVersion, "/")
			of := w.Client.Resource(schema.GroupVersionResource{Group: strings.Join(gv[1:len(gv)-1], ""), Version: gv[len(gv)-1], Resource: r.Name})
			all, err := of.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range all.Items {
				out[object.KeyOf(&all.Items[i])] = &all.Items[i]
			}
		}
	}
	return out
}

// moment is a time in a status.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// content is an object without what differs each time it is written.
func content(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	o = o.DeepCopy()
	for _, field := range []string{"resourceVersion", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	entries := o.GetManagedFields()
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(fmt.Sprint(a.Manager, a.Operation, a.Subresource, a.APIVersion), fmt.Sprint(b.Manager, b.Operation, b.Subresource, b.APIVersion))
	})
	o.SetManagedFields(entries)
	return moment.ReplaceAllString(testkit.Show(o), "TIME")
}

func TestThePlanWritesNothingAndSaysWhatThenHappens(t *testing.T) {
	t.Parallel()
	config := testkit.Another(t)
	w := testkit.NewWorld(t, config)
	recorded := live.Load(t, w, live.Crossplane, live.KRO)

	stored := everything(t, w, config)
	r := rehearse(t, config)
	for key, o := range everything(t, w, config) {
		if was := stored[key]; was == nil || was.GetResourceVersion() != o.GetResourceVersion() {
			t.Errorf("the plan has written %s", key)
		}
		delete(stored, key)
	}
	for key := range stored {
		t.Errorf("the plan has deleted %s", key)
	}
	_ = takeover.New(r.Objects, r.Failed)

	stop := serve(t, config, server.Dialects)
	var differences map[object.Key]string
	deadline := time.Now().Add(40 * time.Second)
	for time.Now().Before(deadline) {
		differences = map[object.Key]string{}
		for _, o := range r.Objects {
			if o.After == nil || o.Before == nil {
				continue
			}
			is := w.Get(t, o.After.GroupVersionKind(), o.After.GetNamespace(), o.After.GetName())
			if is == nil {
				differences[object.KeyOf(o.After)] = "gone"
				continue
			}
			if len(o.After.GetManagedFields()) < 1 || o.Before == o.After {
				continue
			}
			if diff := cmp.Diff(content(t, o.After), content(t, is)); diff != "" {
				differences[object.KeyOf(o.After)] = diff
			}
		}
		if len(differences) == 0 {
			break
		}
		time.Sleep(3 * time.Second)
	}
	for _, key := range slices.SortedFunc(maps.Keys(differences), object.Key.Compare) {
		t.Errorf("%s: -planned +real\n%s", key, differences[key])
	}
	stop()
	kubeconfig := testkit.Kubeconfig(t, config)
	for _, engine := range []string{"crossplane", "kro"} {
		code, out, errs := call(t.Context(), "takeover", "--back-to", engine, "--kubeconfig", kubeconfig)
		fmt.Println(code, out, errs)
	}
	for key, o := range recorded {
		is := w.Get(t, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
		if diff := takeover.Diff(o, is); len(diff) > 0 {
			fmt.Printf("LEFT %s %+v\n", key, diff)
		}
	}
	_ = errors.New
}
