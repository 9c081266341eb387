package managed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func TestGuardKeepsConfigurationsThatAreUsed(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "ProviderConfig"}
	key := object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: "prod", Name: "default"}
	const config = "{apiVersion: cloud.example.org/v1, kind: ProviderConfig, metadata: {name: default, namespace: prod, finalizers: [" + resource.ConfigFinalizer + "]}}"
	const before, after = "the configuration is not deleted while it is used by ", ". Delete them, including those in namespaces that are no longer allowed to use it: " +
		"their external resources are deleted with them, or left with spec.deletionPolicy Orphan. Or have them refer to another configuration, in spec.providerConfigRef"
	const inUse = before + "Database prod/db" + after
	naming := func(kind, name string) edit {
		return set(map[string]any{"kind": kind, "name": name}, "spec", "providerConfigRef")
	}
	conflict := apierrors.NewConflict(schema.GroupResource{}, "default", nil)
	cases := map[string]struct {
		reason string
		given  func(*fakekube.Cluster)
		fails  error
		writes []string
		status string
		events []string
		err    error
	}{
		"new":       {"nobody can delete external resources without it", func(c *fakekube.Cluster) { c.Change(key, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) }) }, nil, []string{"patch ProviderConfig prod/default"}, "", nil, nil},
		"unchanged": {"it costs no request", func(*fakekube.Cluster) {}, nil, nil, "", nil, nil},
		"gone":      {"there is nothing left to do", func(c *fakekube.Cluster) { c.Remove(key) }, nil, nil, "gone", nil, nil},
		"deleted, and used by default": {
			"a managed resource that names none means it",
			func(c *fakekube.Cluster) { c.Change(key, deleted) }, nil, []string{"update-status ProviderConfig prod/default"},
			inUse, []string{"Warning InUse: " + inUse}, nil,
		},
		"deleted, and used by name": {
			"as the managed resource says",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Change(databaseKey, naming(kind.Kind, "default"))
			}, nil, []string{"update-status ProviderConfig prod/default"}, inUse, []string{"Warning InUse: " + inUse}, nil,
		},
		"deleted, and used, as was said": {
			"it is said once",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Change(key, set(map[string]any{"message": inUse, "users": int64(1)}, "status"))
			}, nil, nil, inUse, nil, nil,
		},
		"deleted, and used by more": {
			"that is no other event",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Change(key, set(inUse, "status", "message"))
				other := fakekube.Parse(database)
				other.SetName("other")
				c.Add(other)
			}, nil, []string{"update-status ProviderConfig prod/default"}, before + "Database prod/db, Database prod/other" + after, nil, nil,
		},
		"deleted, and used by many": {
			"not all are listed",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Change(key, set(inUse, "status", "message"))
				for i := range maxListedUsers + 1 {
					other := fakekube.Parse(database)
					other.SetName(fmt.Sprintf("a%02d", i))
					c.Add(other)
				}
			}, nil, []string{"update-status ProviderConfig prod/default"},
			before + "Database prod/a00, Database prod/a01, Database prod/a02, Database prod/a03, Database prod/a04, Database prod/a05, Database prod/a06, " +
				"Database prod/a07, Database prod/a08, Database prod/a09 and 2 more" + after, nil, nil,
		},
		"deleted, and another is used": {
			"it goes",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Change(databaseKey, naming(kind.Kind, "other"))
			}, nil, []string{"patch ProviderConfig prod/default"}, "gone", nil, nil,
		},
		"deleted, and another kind is used": {
			"it goes",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Change(databaseKey, naming("ClusterProviderConfig", "default"))
			}, nil, []string{"patch ProviderConfig prod/default"}, "gone", nil, nil,
		},
		"deleted, and users are being read": {
			"nothing follows from what isn't read",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Kinds[databaseKind.GroupKind()] = fakekube.Kind{State: unsynced}
			}, nil, nil, "", nil, nil,
		},
		"the write fails": {
			"it is repeated",
			func(c *fakekube.Cluster) { c.Change(key, deleted) }, errRefused, []string{"update-status ProviderConfig prod/default"}, "", nil, errRefused,
		},
		"the finalizer can't be removed": {
			"it is repeated",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Remove(databaseKey)
			}, errRefused, []string{"patch ProviderConfig prod/default"}, "", nil, errRefused,
		},
		"somebody else was faster": {
			"the event of that brings the next reconcile",
			func(c *fakekube.Cluster) {
				c.Change(key, deleted)
				c.Before = func(string) error {
					c.Change(key, annotated("a", "b"))
					return nil
				}
			}, conflict, []string{"update-status ProviderConfig prod/default"}, "", nil, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := fakekube.New(config, database)
			tc.given(c)
			if before := c.Before; tc.fails != nil {
				c.Before = func(request string) error {
					if request[:4] == "get " {
						return nil
					}
					if before != nil {
						_ = before(request)
					}
					return tc.fails
				}
			}
			g := &Guard{
				Config: kind, Default: true, UserKinds: func() []schema.GroupVersionKind { return []schema.GroupVersionKind{databaseKind} }, Configs: c.Client(), Cache: c, Events: c,
				Watch: func(s watch.Subscriber) Lease { return c.Begin(s) },
			}
			out := g.Reconcile(context.Background(), key)
			if !errors.Is(out.Err, tc.err) || (out.Err != nil) != (tc.err != nil) {
				t.Errorf("%s: %+v", tc.reason, out)
			}
			if diff := cmp.Diff(tc.writes, c.Writes()); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.events, c.Events); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", tc.reason, diff)
			}
			status := "gone"
			if o := c.Object(key); o != nil {
				status, _, _ = unstructured.NestedString(o.Object, "status", "message")
			}
			if status != tc.status {
				t.Errorf("%s: the status is %q", tc.reason, status)
			}
		})
	}
}

// TestTheDeletionOfAConfigurationEnds has a cluster-scoped configuration that objects of two namespaces use, whether
// their namespaces may use it or not: it goes with the last of them.
func TestTheDeletionOfAConfigurationEnds(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "ClusterProviderConfig"}
	key := object.Key{Group: kind.Group, Kind: kind.Kind, Name: "default"}
	c := fakekube.New(database, strings.Replace(database, "namespace: prod", "namespace: dev", 1),
		"{apiVersion: cloud.example.org/v1, kind: ClusterProviderConfig, metadata: {name: default, finalizers: ["+resource.ConfigFinalizer+"]}, spec: {allowedNamespaces: {names: []}}}")
	c.Kinds[kind.GroupKind()] = fakekube.Kind{ClusterScoped: true}
	g := &Guard{
		Config: kind, Default: true, UserKinds: func() []schema.GroupVersionKind { return []schema.GroupVersionKind{databaseKind} }, Configs: c.Client(), Cache: c, Events: c,
		Watch: func(s watch.Subscriber) Lease { return c.Begin(s) },
	}
	c.Change(key, deleted)
	for _, step := range []struct {
		remove object.Key
		users  string
	}{
		{object.Key{}, "used by Database dev/db, Database prod/db. Delete them"},
		{databaseKey, "used by Database dev/db. Delete them"},
	} {
		if step.remove.Name != "" {
			c.Remove(step.remove)
		}
		if out := g.Reconcile(context.Background(), key); out.Err != nil {
			t.Fatal(out.Err)
		}
		message, _, _ := unstructured.NestedString(c.Object(key).Object, "status", "message")
		if !strings.Contains(message, step.users) {
			t.Errorf("the message is %q, without %q", message, step.users)
		}
	}
	last := databaseKey
	last.Namespace = "dev"
	c.Remove(last)
	if out := g.Reconcile(context.Background(), key); out.Err != nil || c.Object(key) != nil {
		t.Errorf("%v, and the configuration is %v", out.Err, c.Object(key))
	}
}
