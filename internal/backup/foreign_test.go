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
	"github.com/espalier-dev/espalier/internal/backup/archive"
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
			want: "App dev/test exists and differs in spec.size; an import overwrites nothing",
		},
		"an existing object was being deleted when it was exported": {
			reason: "the existing one is not",
			edit:   func(c *fakekube.Cluster) { c.Change(appKey, deleting) },
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: web, namespace: prod}, spec: {size: small}}"))
			},
			want: "App prod/web exists, and was being deleted when it was exported; an import deletes nothing that it has not created",
		},
		"a managed resource exists without a Binding": {
			reason: "it would be bound to the external resource that the archive names",
			given: func(c *fakekube.Cluster) {
				o := fakekube.Parse(fmt.Sprintf(database, ", annotations: {crossplane.io/external-name: web-7}"))
				partOf(appKey, "v1alpha1")(o)
				c.Add(o)
			},
			want: "Binding u-db-1: Database prod/web exists without it, and this import has not created that: an import binds no existing managed resource",
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
		"an older revision would become the newest": {
			reason: "composites follow the newest",
			given: func(c *fakekube.Cluster) {
				const revision = "{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: shop-%d, labels: {crossplane.io/composition-name: shop}}, spec: {revision: %d, compositeTypeRef: {apiVersion: shop.example.org/v1, kind: XShop}, mode: Pipeline, pipeline: [{step: render, functionRef: {name: function-render}}]}}"
				c.Add(fakekube.Parse(fmt.Sprintf(revision, 1, 1)))
				c.Add(fakekube.Parse(fmt.Sprintf(revision, 2, 2)))
			},
			want: "CompositionRevision shop-1 exists and differs in spec.revision, and shop-2 is newer; an import overwrites nothing",
		},
		"a new revision of an existing composition would be the newest": {
			reason: "its composites would run the archive's pipeline",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse(fmt.Sprintf(existingRevision, "shop-0", 2)))
			},
			want: "CompositionRevision shop-1 of Composition shop cannot be created: its number 3 is not less than 2, that of shop-0, which exists",
		},
		"a new revision has the hash of an existing one": {
			reason: "a composition that returns to this state would run the archive's pipeline",
			edit: func(c *fakekube.Cluster) {
				c.Change(object.Key{Group: revisionKind.Group, Kind: revisionKind.Kind, Name: "shop-1"}, func(o *unstructured.Unstructured) {
					o.SetLabels(map[string]string{"crossplane.io/composition-name": "shop", "crossplane.io/composition-hash": "h"})
				})
			},
			given: func(c *fakekube.Cluster) {
				o := fakekube.Parse(fmt.Sprintf(existingRevision, "shop-0", 7))
				o.SetLabels(map[string]string{"crossplane.io/composition-name": "shop", "crossplane.io/composition-hash": "h"})
				c.Add(o)
			},
			want: "CompositionRevision shop-1 of Composition shop cannot be created: it has the hash of shop-0, which exists",
		},
		"an existing composition has no revision": {
			reason: "the archive's would be the newest until its controller creates one",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: shop}}"))
			},
			want: "CompositionRevision shop-1 of Composition shop cannot be created: that exists without a revision; wait until the controllers have created one",
		},
		"a composition without a revision is being deleted": {
			reason: "no controller creates a revision of it any more",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: shop, finalizers: [example.com/held], deletionTimestamp: 2026-01-02T03:04:05Z}}"))
			},
			want: "CompositionRevision shop-1 of Composition shop cannot be created: that is being deleted: wait until it is gone",
		},
		"a new revision of an existing graph definition would be the newest": {
			reason: "its instances would follow it",
			given: func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: internal.kro.run/v1alpha1, kind: GraphRevision, metadata: {name: apps-0}, spec: {revision: 1, snapshot: {name: apps, generation: 1}}}"))
			},
			want: "GraphRevision apps-1 of ResourceGraphDefinition apps cannot be created: its number 1 is not less than 1, that of apps-0, which exists",
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

// existingRevision is a revision of the exported composition, with a name and a number.
const existingRevision = "{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: %s, labels: {crossplane.io/composition-name: shop}}, spec: {revision: %d, compositeTypeRef: {apiVersion: shop.example.org/v1, kind: XShop}, mode: Pipeline, pipeline: [{step: render, functionRef: {name: function-render}}]}}"

// TestOlderRevisionsOfAnExistingCompositionAreImported has the newest of two exported revisions in
// the target, as the first one of a composition that was installed there before.
func TestOlderRevisionsOfAnExistingCompositionAreImported(t *testing.T) {
	older := object.Key{Group: revisionKind.Group, Kind: revisionKind.Kind, Name: "shop-0"}
	file, c := exported(t, func(c *fakekube.Cluster) { c.Add(fakekube.Parse(fmt.Sprintf(existingRevision, "shop-0", 2))) }), target()
	c.Add(fakekube.Parse(fmt.Sprintf(existingRevision, "shop-1", 1)))
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := c.Object(older); got == nil || archive.Number(got) != 2 {
		t.Errorf("the older revision is %v", got)
	}
}

// TestAnAbortDeletesOnlyWhatTheImportCreated aborts an interrupted import where objects with the
// archive's annotation exist that an earlier import of it has created.
func TestAnAbortDeletesOnlyWhatTheImportCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, c := exported(t), target()
		theirs := object.Key{Group: "apiextensions.crossplane.io", Kind: "EnvironmentConfig", Name: "region"}
		old := find(file, theirs).DeepCopy()
		old.SetAnnotations(map[string]string{espalier.ImportAnnotation: "import-e1/uid-of-an-earlier-hold"})
		c.Add(old)
		c.Before = failing("create App dev/test", errUnavailable)
		i, _ := newImport(c, file)
		if err := i.Run(context.Background()); !errors.Is(err, errUnavailable) {
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
	c.Add(find(file, object.Key{Group: "apiextensions.crossplane.io", Kind: "EnvironmentConfig", Name: "region"}))
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
	if err == nil || !strings.Contains(err.Error(), "you may not use service account admin of namespace kube-system: ResourceGraphDefinition apps") {
		t.Errorf("got %v", err)
	}
}
