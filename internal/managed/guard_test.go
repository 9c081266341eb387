package managed

import (
	"context"
	"errors"
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
	const inUse = "the configuration is not deleted while it is used by Database prod/db"
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
			}, nil, []string{"update-status ProviderConfig prod/default"}, inUse + " and 1 more", nil, nil,
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
