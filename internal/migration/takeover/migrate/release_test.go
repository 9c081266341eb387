package migrate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// taken is a cluster whose objects were taken over from kro.
func taken() *fakekube.Cluster {
	c := newApp()
	c.Kinds[crdKind.GroupKind()] = fakekube.Kind{ClusterScoped: true}
	c.Kinds[schema.GroupKind{Group: "internal.kro.run", Kind: "GraphRevision"}] = fakekube.Kind{Unserved: true}
	c.Kinds[schema.GroupKind{Group: "kro.run", Kind: "ResourceGroup"}] = fakekube.Kind{Unserved: true}
	c.Kinds[schema.GroupKind{Group: "kro.run", Kind: "ResourceGraphDefinition"}] = fakekube.Kind{ClusterScoped: true, Preferred: "v1alpha1"}
	c.Add(fakekube.Parse(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.kro.run, labels: {kro.run/owned: "true"}}
spec: {group: kro.run, names: {kind: App, plural: apps}, versions: [{name: v1alpha1, served: true, storage: true}]}`))
	c.Add(fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: apps}}"))
	for _, key := range c.Keys() {
		if key.Name == "web" || key.Group != "" {
			c.Change(key, own)
		}
	}
	return c
}

// own gives an object a mark of Espalier's.
func own(o *unstructured.Unstructured) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all["espalier.dev/applied"] = "x"
	o.SetAnnotations(all)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply}})
}

// release gives everything back to kro, and returns what was written.
func release(t *testing.T, c *fakekube.Cluster, edits ...func(*ReleaseOptions)) (writes, looked []string, err error) {
	t.Helper()
	o := ReleaseOptions{
		Engine: managedfields.KRO, Lease: "espalier", Now: func() time.Time { return time.Unix(1000, 0) },
		Each: func(o preview.Object) { looked = append(looked, object.KeyOf(o.After).String()) },
	}
	for _, edit := range edits {
		edit(&o)
	}
	err = newReleaser(o, c, func() (mapper, error) { return c, nil }).run(t.Context())
	return c.Writes(), looked, err
}

func TestReleaseWritesChildrenThenInstancesThenDefinitions(t *testing.T) {
	c := taken()
	want := []string{"patch ConfigMap prod/web", "patch App prod/web", "patch ResourceGraphDefinition apps", "patch CustomResourceDefinition apps.kro.run"}
	writes, looked, err := release(t, c, func(o *ReleaseOptions) { o.DryRun = true })
	if err != nil || len(looked) != len(want) || !strings.HasPrefix(writes[0], "dry-run patch") {
		t.Errorf("a dry run: %q, %q, %v", writes, looked, err)
	}
	if c.Object(appKey).GetAnnotations()["espalier.dev/applied"] == "" {
		t.Error("a dry run changes what is stored")
	}
	writes, looked, err = release(t, c)
	if diff := cmp.Diff(want, writes); diff != "" || err != nil {
		t.Errorf("%v; writes (-want +got):\n%s", err, diff)
	}
	if c.Object(appKey).GetAnnotations()["espalier.dev/applied"] != "" || len(looked) != len(want) {
		t.Errorf("observed %q", looked)
	}
	if writes, looked, err = release(t, c); len(writes) > 0 || len(looked) != len(want) || err != nil {
		t.Errorf("a second release: %q, observed %q, %v", writes, looked, err)
	}
}

// TestReleaseOfGraphs releases a Graph after the Graph that stamps it, and both before their children, which they record.
func TestReleaseOfGraphs(t *testing.T) {
	c := taken()
	c.Kinds[schema.GroupKind{Group: "kro.run", Kind: "Graph"}] = fakekube.Kind{Preferred: "v1alpha1"}
	graph := func(name string) object.Key {
		return object.Key{Group: "kro.run", Kind: "Graph", Namespace: "prod", Name: name}
	}
	for _, text := range []string{
		"{apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: inner, namespace: prod, uid: g-2, labels: {applyset.kubernetes.io/part-of: " + inventory.ApplySetID(graph("outer")) + "}, annotations: {espalier.dev/applied: x}}}",
		"{apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: outer, namespace: prod, uid: g-1, annotations: {applyset.kubernetes.io/contains-group-kinds: Graph.kro.run}}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: part, namespace: prod, uid: cm-2, labels: {applyset.kubernetes.io/part-of: " + inventory.ApplySetID(graph("inner")) + "}}}",
	} {
		c.Add(fakekube.Parse(text))
	}
	c.Change(graph("inner"), func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"managedResources": []any{map[string]any{"nodeID": "a", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod", "name": "part", "uid": "cm-2"}}}
	})
	writes, _, err := release(t, c)
	want := []string{"patch Graph prod/outer", "patch Graph prod/outer", "patch Graph prod/inner", "patch ConfigMap prod/part", "patch ConfigMap prod/web"}
	if diff := cmp.Diff(want, writes[:min(len(want), len(writes))]); diff != "" || err != nil {
		t.Errorf("%v; writes (-want +got):\n%s", err, diff)
	}
	if writes, _, err = release(t, c); len(writes) > 0 || err != nil {
		t.Errorf("a second release: %q, %v", writes, err)
	}
}

func TestReleaseOfComposites(t *testing.T) {
	yes := true
	c := taken()
	c.Change(object.Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: "apps.kro.run"}, func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "CompositeResourceDefinition", Controller: &yes}})
	})
	for _, gk := range (&releaser{ReleaseOptions: ReleaseOptions{Engine: managedfields.Crossplane}}).definitions() {
		c.Kinds[gk] = fakekube.Kind{Unserved: true}
	}
	writes, _, err := release(t, c, func(o *ReleaseOptions) { o.Engine = managedfields.Crossplane })
	want := []string{"patch ConfigMap prod/web", "patch App prod/web", "patch CustomResourceDefinition apps.kro.run"}
	if diff := cmp.Diff(want, writes); diff != "" || err != nil {
		t.Errorf("%v; writes (-want +got):\n%s", err, diff)
	}
}

func TestNothingIsReleasedWhileTheControllersRun(t *testing.T) {
	lease := func(renewed string) *unstructured.Unstructured {
		return fakekube.Parse(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: espalier, namespace: system},
spec: {holderIdentity: pod-1, leaseDurationSeconds: 15, renewTime: "` + renewed + `"}}`)
	}
	c := taken()
	c.Add(lease("1970-01-01T00:16:35Z"))
	writes, _, err := release(t, c)
	var running *RunningError
	if !errors.As(err, &running) || len(writes) > 0 || err.Error() != "the controllers run: pod-1 holds Lease system/espalier. Stop them first: they would take the objects over again" {
		t.Errorf("while the controllers run: %v, %q", err, writes)
	}
	c.Add(lease("1970-01-01T00:16:00Z"))
	if _, _, err := release(t, c); err != nil {
		t.Errorf("after the controllers have ended: %v", err)
	}
}

func TestReleaseIsRepeatedAfterConflicts(t *testing.T) {
	const patch, get = "patch ConfigMap prod/web", "get ConfigMap prod/web"
	cases := map[string]struct {
		reason string
		// before is called before the n-th request of its kind.
		before  func(c *fakekube.Cluster, request string, n int)
		written int
		err     error
	}{
		"another client changes the object once": {
			"the object is read again",
			func(c *fakekube.Cluster, request string, n int) { touch(c, request == patch && n == 1) }, 2, nil,
		},
		"another client keeps changing the object": {
			"the command fails after some attempts",
			func(c *fakekube.Cluster, request string, _ int) { touch(c, request == patch) }, attempts, errBusy,
		},
		"another client changes and deletes the object": {
			"nothing is left to release",
			func(c *fakekube.Cluster, request string, _ int) {
				if touch(c, request == patch); request == get {
					c.Remove(childKey)
				}
			}, 1, nil,
		},
		"another client deletes the object before the patch": {
			"nothing is left to release",
			func(c *fakekube.Cluster, request string, n int) {
				if request == patch && n == 1 {
					c.Remove(childKey)
				}
			}, 1, nil,
		},
		"another client recreates the object": {
			"the new object is not released",
			func(c *fakekube.Cluster, request string, _ int) {
				if request == patch {
					c.Change(childKey, func(o *unstructured.Unstructured) { o.SetUID("cm-2") })
				}
			}, 1, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, made := taken(), map[string]int{}
			c.Before = func(request string) error {
				if made[request]++; request == patch || request == get {
					tc.before(c, request, made[request])
				}
				return nil
			}
			if _, _, err := release(t, c); !errors.Is(err, tc.err) || made[patch] != tc.written {
				t.Errorf("%s: %d patches, %v", tc.reason, made[patch], err)
			}
		})
	}
}

func touch(c *fakekube.Cluster, change bool) {
	if change {
		c.Change(childKey, func(*unstructured.Unstructured) {})
	}
}

// TestReleaseEndsWhereARequestFails fails each request in turn, and then repeats the release.
func TestReleaseEndsWhereARequestFails(t *testing.T) {
	for n := 1; ; n++ {
		c, count, failed := taken(), 0, ""
		c.Before = func(request string) error {
			if count++; count == n {
				failed = request
				return errTest
			}
			return nil
		}
		_, _, err := release(t, c)
		if failed == "" {
			if err != nil || n < 8 {
				t.Errorf("after %d requests: %v", n, err)
			}
			break
		}
		if !errors.Is(err, errTest) {
			t.Errorf("%q fails: got %v", failed, err)
		}
		c.Before = nil
		if _, _, err := release(t, c); err != nil || c.Object(childKey).GetAnnotations()["espalier.dev/applied"] != "" {
			t.Errorf("repeated after %q failed: %v", failed, err)
		}
	}
	c := taken()
	if err := newReleaser(ReleaseOptions{Engine: managedfields.KRO, Now: time.Now}, c, func() (mapper, error) { return nil, errTest }).run(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("discovery fails: got %v", err)
	}
	c.Kinds[schema.GroupKind{Group: "internal.kro.run", Kind: "GraphRevision"}] = fakekube.Kind{Err: errTest}
	if _, _, err := release(t, c); !errors.Is(err, errTest) {
		t.Errorf("discovery of one kind fails: got %v", err)
	}
}
