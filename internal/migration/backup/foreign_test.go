package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

// TestWhatExistsIsNotTheImports has objects in the target that an import would have deleted,
// changed or bound, if it took them for its own.
func TestWhatExistsIsNotTheImports(t *testing.T) {
	const database = "{apiVersion: cloud.example.org/v1, kind: Database, metadata: {name: web, namespace: prod%s}, spec: {forProvider: {size: small}}}"
	bindingOfUs := object.Key{Group: bindingKind.Group, Kind: "Binding", Name: "u-db-1"}
	cases := map[string]struct {
		reason string
		edit   func(*fakekube.Cluster) // of the exported control plane
		given  func(*fakekube.Cluster) // of the target
		want   string
	}{
		"an object with the annotation of an import of the archive differs": {
			reason: "an earlier import of the archive, or somebody else, has written the annotation",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: test, namespace: dev, annotations: {espalier.dev/import: import-e1/uid-0}}, spec: {size: large}}"))
			},
			want: "App dev/test exists; an import overwrites nothing",
		},
		"an existing object was being deleted when it was exported": {
			reason: "the existing one is not",
			edit:   func(c *fakekube.Cluster) { c.Change(appKey, deleting) },
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: web, namespace: prod}, spec: {size: small}}"))
			},
			want: "App prod/web exists; an import overwrites nothing",
		},
		"a managed resource exists without a Binding": {
			reason: "it would be bound to the external resource that the archive names",
			given: func(c *fakekube.Cluster) {
				o := fakekube.Parse(fmt.Sprintf(database, ", annotations: {crossplane.io/external-name: web-7}"))
				partOf(appKey, "v1alpha1")(o)
				c.Add(o)
			},
			want: "Database prod/web exists; an import overwrites nothing",
		},
		"a Binding without its managed resource in the archive belongs to an existing one": {
			reason: "the archive can name any UID",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: cloud.example.org/v1, kind: Database, metadata: {name: gone, namespace: prod, uid: db-3}}"))
			},
			want: "Binding k-tombstone: Database prod/gone is not in the export and exists: an import binds no existing managed resource",
		},
		"another Binding reserves the same external resource": {
			reason: "two managed resources would have it",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: espalier.dev/v1alpha1, kind: Binding, metadata: {name: k-other}, spec: {phase: Bound, ref: web-7, key: {scope: eu, type: db}, owner: {apiVersion: cloud.example.org/v1, kind: Database, namespace: dev, name: theirs, uid: db-8}}}"))
			},
			want: `Binding u-db-1: db "web-7" in eu is reserved by Database dev/theirs`,
		},
		"a revision of a former composition is left": {
			reason: "composites would run its pipeline, if it is newer, or the composition returns to its state",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: shop-0, labels: {crossplane.io/composition-name: shop}}, spec: {revision: 2}}"))
			},
			want: "CompositionRevision shop-0 of Composition shop exists; delete it first, because instances would follow it",
		},
		"a composition is being deleted": {
			reason: "its controller would delete what the import creates",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: shop, finalizers: [example.com/held], deletionTimestamp: 2026-01-02T03:04:05Z}}"))
			},
			want: "Composition shop is being deleted: wait until it is gone",
		},
		"a revision of a former graph definition is left": {
			reason: "its instances would follow it",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: internal.kro.run/v1alpha1, kind: GraphRevision, metadata: {name: apps-0}, spec: {revision: 1, snapshot: {name: apps, generation: 1}}}"))
			},
			want: "GraphRevision apps-0 of ResourceGraphDefinition apps exists; delete it first, because instances would follow it",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.edit == nil {
				tc.edit = func(*fakekube.Cluster) {}
			}
			file, c := exported(t, tc.edit), target()
			tc.given(c)
			i, _ := newImport(c, file)
			err := i.Run(context.Background())
			var problems *ProblemsError
			if !errors.As(err, &problems) || !slices.Contains(problems.Problems, tc.want) {
				t.Errorf("%s: got %v", tc.reason, err)
			}
			if writes := without(c.Writes(), "dry-run "); len(writes) > 0 {
				t.Errorf("%s: the import wrote %q", tc.reason, writes)
			}
			if c.Object(bindingOfUs) != nil {
				t.Errorf("%s: a Binding was created", tc.reason)
			}
		})
	}
}

// TestAnAbortDeletesOnlyWhatTheImportCreated aborts an import that has found an object with the
// annotation of an earlier import of the archive.
func TestAnAbortDeletesOnlyWhatTheImportCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, c := exported(t), target()
		theirs := object.Key{Group: "apiextensions.crossplane.io", Kind: "EnvironmentConfig", Name: "region"}
		old := find(file, theirs).DeepCopy()
		old.SetAnnotations(map[string]string{espalier.ImportAnnotation: "import-e1/uid-of-an-earlier-hold"})
		c.Before = func(request string) error {
			if request == "create "+theirs.String() {
				c.Add(old)
			}
			return nil
		}
		i, _ := newImport(c, file)
		if err := i.Run(context.Background()); !errors.Is(err, ErrChanged) {
			t.Fatal(err)
		}
		c.Before = nil
		i, _ = newImport(c, file)
		if err := i.Abort(context.Background()); err != nil {
			t.Fatal(err)
		}
		if c.Object(theirs) == nil {
			t.Error("an object that existed before is deleted")
		}
		if c.Object(databaseKey) != nil || c.Object(holdKey) != nil {
			t.Error("objects of the import remain")
		}
	})
}

// TestAnAbortNeedsNoKindOfAnArchiveWithoutObjectsOfIt has a Binding of a managed resource that is not
// in the archive, and its kind is not served.
func TestAnAbortNeedsNoKindOfAnArchiveWithoutObjectsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, c := exported(t, func(c *fakekube.Cluster) {
			c.Change(object.Key{Group: bindingKind.Group, Kind: "Binding", Name: "k-tombstone"}, func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedMap(o.Object, map[string]any{
					"apiVersion": "batch.example.org/v1", "kind": "Job", "namespace": "prod", "name": "gone", "uid": "job-1",
				}, "spec", "owner")
			})
		}), target()
		c.Before = failing("create App dev/test", errUnavailable)
		i, _ := newImport(c, file)
		if err := i.Run(context.Background()); !errors.Is(err, errUnavailable) {
			t.Fatal(err)
		}
		c.Before = nil
		i, _ = newImport(c, file)
		if err := i.Abort(context.Background()); err != nil || c.Object(holdKey) != nil {
			t.Errorf("got %v", err)
		}
	})
}

// TestARunCarriesOutThePlan compares the steps of a plan, of a run, and the requests of the run.
func TestARunCarriesOutThePlan(t *testing.T) {
	file, c := exported(t, func(c *fakekube.Cluster) { c.Change(appKey, deleting) }), target()
	c.Add(fakekube.Parse("{apiVersion: v1, kind: Namespace, metadata: {name: prod}}"))
	i, _ := newImport(c, file)
	planned, err := i.Plan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if writes := without(c.Writes(), "dry-run "); len(writes) > 0 {
		t.Fatalf("the plan wrote %q", writes)
	}
	i, _ = newImport(c, file)
	var done []string
	i.Done = func(step Step) { done = append(done, step.String()) }
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var want, wantRequests []string
	for _, step := range planned {
		want = append(want, step.String())
		if step.Verb != Keep {
			wantRequests = append(wantRequests, strings.TrimSpace(string(step.Verb)+" "+step.Key.String()))
		}
	}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("steps (-planned +done):\n%s", diff)
	}
	var requests []string
	for _, request := range without(c.Writes(), "Hold ") {
		if verb, key, _ := strings.Cut(request, " "); verb == "create" || verb == "delete" {
			if owner := c.Object(databaseKey).GetUID(); key == "Binding u-"+string(owner) {
				key = "Binding u-db-1"
			} else if strings.HasPrefix(key, "Binding u-uid-") {
				key = "Binding u-db-2"
			}
			requests = append(requests, verb+" "+key)
		}
	}
	if diff := cmp.Diff(wantRequests, requests); diff != "" {
		t.Errorf("requests (-planned +made):\n%s", diff)
	}
}

// TestTheAPIServerChecksCreationsFirst refuses two objects in the dry run: both are reported, and
// nothing is written.
func TestTheAPIServerChecksCreationsFirst(t *testing.T) {
	file, c := exported(t), target()
	c.Add(fakekube.Parse("{apiVersion: v1, kind: Namespace, metadata: {name: prod}}"))
	c.Before = func(request string) error {
		if request == "dry-run create App prod/web" || request == "dry-run create Composition shop" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, request, errors.New("by a policy"))
		}
		return nil
	}
	i, _ := newImport(c, file)
	err := i.Run(context.Background())
	var problems *ProblemsError
	if !errors.As(err, &problems) || len(problems.Problems) != 2 {
		t.Errorf("got %v", err)
	}
	if writes := without(c.Writes(), "dry-run "); len(writes) > 0 {
		t.Errorf("the import wrote %q", writes)
	}
}

// TestAnImportedOperationIsMarked imports a Binding with an operation in flight.
func TestAnImportedOperationIsMarked(t *testing.T) {
	file := exported(t, func(c *fakekube.Cluster) {
		c.Change(object.Key{Group: bindingKind.Group, Kind: "Binding", Name: "u-db-1"}, func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedMap(o.Object, map[string]any{"verb": "Create", "token": "t", "resume": "r"}, "spec", "operation")
			_ = unstructured.SetNestedMap(o.Object, map[string]any{"holder": "old", "epoch": int64(9e15)}, "spec", "leader")
		})
	})
	c := target()
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	b := c.Object(object.Key{Group: bindingKind.Group, Kind: "Binding", Name: "u-" + string(c.Object(databaseKey).GetUID())})
	if !archive.IsImportedOperation(b) {
		t.Errorf("the operation is %v", b.Object["spec"])
	}
	if _, has, _ := unstructured.NestedMap(b.Object, "spec", "leader"); has {
		t.Error("the leader of the former cluster would suspend the controllers of this one")
	}
}

// TestAccountsAreReviewed imports a definition with a service account that the importing user may not
// use: the fake's answer to a review has no status.
func TestAccountsAreReviewed(t *testing.T) {
	file := exported(t, func(c *fakekube.Cluster) {
		c.Change(object.Key{Group: "kro.run", Kind: "ResourceGraphDefinition", Name: "apps"}, func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, map[string]any{"namespace": "kube-system", "name": "admin"}, "spec", "serviceAccount")
		})
	})
	c := target()
	c.Kinds[accessReviewKind.GroupKind()] = fakekube.Kind{ClusterScoped: true}
	c.Before = func(request string) error { // reviews are not stored
		c.Remove(object.Key{Group: accessReviewKind.Group, Kind: accessReviewKind.Kind})
		return nil
	}
	i, _ := newImport(c, file)
	_, err := i.Plan(context.Background())
	if err == nil || !strings.Contains(err.Error(), "you are not allowed to use service account admin of namespace kube-system: ResourceGraphDefinition apps") {
		t.Errorf("got %v", err)
	}
}
