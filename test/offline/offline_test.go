package offline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

type cluster struct{ suite.Suite }

// TestOfflineIsAsTheServer renders all cases in one empty cluster in memory, applies them to an API server, and compares the
// statuses of all instances and what they consist of.
func TestOfflineIsAsTheServer(t *testing.T) {
	s := cluster{suite.New(t)}
	s.AllowComposing(t, "", "apps", "batch", "networking.k8s.io", "rbac.authorization.k8s.io", "sandbox.espalier.dev", "offline.example.com")
	var files, instances []simulation.Applied
	names := map[string]string{} // of the cases, by the names of instances
	for i, c := range cases(t) {
		f, all := c.isolate(t, s.Suite, i)
		files, instances = append(files, f...), append(instances, all...)
		for _, o := range all {
			names[o.Object.GetName()] = c.name
		}
	}
	began := time.Now()
	rendered, problems, err := simulation.Render(t.Context(), server.ManagerOptions{Options: manager.Options{Name: "espalier", Version: "test"}}, slices.Concat(files, instances), s.NS, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("rendered %d of %d instances in %s, with %d problems", len(rendered), len(instances), time.Since(began).Round(time.Second), len(problems))
	if len(rendered) < 30 {
		t.Fatalf("only %d instances are rendered: %v", len(rendered), problems)
	}
	isRefused := map[string]bool{}
	for _, p := range problems {
		isRefused[p.Object] = p.Reason == "Refused"
	}
	byName := map[string]preview.Rendered{}
	kinds := map[schema.GroupVersionKind]bool{}
	for _, r := range rendered {
		byName[r.Instance.GetName()] = r
		for _, o := range r.Objects {
			kinds[o.GroupVersionKind()] = true
		}
	}
	for _, o := range slices.Concat(files, instances) {
		_, isThere := byName[o.Object.GetName()]
		key := object.KeyOf(o.Object).String()
		if _, isInstance := names[o.Object.GetName()]; isInstance && !isThere && !isRefused[key] {
			continue // of a kind that is not served
		}
		if _, err := s.TryApply(t, o.Object); (err != nil) != isRefused[key] {
			t.Errorf("%s: %s: refused offline: %t; by the server: %v", o.Source, key, isRefused[key], err)
		}
	}
	maps.DeleteFunc(byName, func(name string, _ preview.Rendered) bool { return differs[names[name]] != "" })
	differences := s.await(t, byName)
	for name, r := range byName {
		t.Run(names[name]+"/"+name, func(t *testing.T) {
			if err := differences[name]; err != nil {
				t.Fatal(err)
			}
			s.compareChildren(t, r, kinds)
		})
	}
}

// differs are cases that are not compared, and why they differ.
var differs = map[string]string{
	"example-tested":                  "it reads the address of a Service, which the API server assigns",
	"golden-adoption":                 "it reads a UID",
	"golden-collection-of-collection": "its children are in namespaces that the server does not have",
	"golden-labels-down":              "each copy that it makes is one more ConfigMap that it copies",
	"golden-renaming-waits":           "it reads a UID",
}

// await waits until all instances are as they are offline, and returns how those differ that are not.
func (s cluster) await(t *testing.T, all map[string]preview.Rendered) map[string]error {
	out := map[string]error{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for name, r := range all {
		resource := s.Resource(t, r.Instance.GroupVersionKind(), r.Instance.GetNamespace())
		group.Go(func() {
			err := testkit.AwaitList(t.Context(), resource, metav1.ListOptions{FieldSelector: "metadata.name=" + name}, func(live map[string]*unstructured.Unstructured) error {
				o := live[r.Instance.GetNamespace()+"/"+name]
				if o == nil {
					return errors.New("does not exist")
				}
				if diff := cmp.Diff(withoutNoise(r.Instance.Object), withoutNoise(preview.Clean(o).Object)); diff != "" {
					return fmt.Errorf("differs (-offline +server):\n%s", diff)
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			out[name] = err
		})
	}
	group.Wait()
	return out
}

// withoutNoise returns a value without the messages of refused requests, since not all of what is wrong with an object is found offline,
// and without the name of the composition's revision, which depends on the annotations of who applied the composition.
func withoutNoise(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		delete(out, "compositionRevisionRef")
		if v["reason"] == "Rejected" {
			delete(out, "message")
		}
		for key, value := range out {
			out[key] = withoutNoise(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = withoutNoise(item)
		}
		return out
	}
	return v
}

// compareChildren compares what an instance consists of with what it does offline.
func (s cluster) compareChildren(t *testing.T, r preview.Rendered, kinds map[schema.GroupVersionKind]bool) {
	t.Helper()
	live := s.Get(t, r.Instance.GroupVersionKind(), r.Instance.GetNamespace(), r.Instance.GetName())
	want, got := map[string]any{}, map[string]any{}
	for _, o := range r.Objects {
		want[object.KeyOf(o).String()] = asApplied(o).Object
	}
	selector := v1alpha1.ApplySetPartOfLabel + "=" + live.GetLabels()[v1alpha1.ApplySetIDLabel]
	for kind := range kinds {
		list := s.List(t, kind, "", selector)
		for i := range list {
			got[object.KeyOf(&list[i]).String()] = asApplied(&list[i]).Object
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the instance consists of (-offline +server):\n%s", diff)
	}
}

// asApplied is an object without what a server sets. An object of Kubernetes is what managers have applied, since offline there are no
// defaults.
func asApplied(o *unstructured.Unstructured) *unstructured.Unstructured {
	_, isBuiltIn := builtin.Lookup(o.GroupVersionKind())
	if isBuiltIn && len(o.GetManagedFields()) > 0 {
		applied := &fieldpath.Set{}
		for e := range ownership.Entries(o) {
			if e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
				applied = applied.Union(e.Fields())
			}
		}
		fields, _ := ownership.Extract(o.Object, applied).(map[string]any)
		maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil }) // an empty list of a required field
		of := &unstructured.Unstructured{Object: fields}
		of.SetGroupVersionKind(o.GroupVersionKind())
		of.SetName(o.GetName())
		if o.GetNamespace() != "" {
			of.SetNamespace(o.GetNamespace())
		}
		o = of
	}
	return preview.Clean(o)
}
