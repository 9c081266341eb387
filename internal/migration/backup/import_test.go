package backup

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

// target is a control plane that serves the same kinds and has none of the objects.
func target() *fakekube.Cluster {
	return newPlane("{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: plane-2}}", crds, compositeCRDs)
}

// exported is an export of all objects, with Secrets.
func exported(t *testing.T, edits ...func(*fakekube.Cluster)) archive.File {
	t.Helper()
	c := newPlane(namespaces, crds, graphs, compositions)
	for _, edit := range edits {
		edit(c)
	}
	e := newExport(c)
	e.Secrets = true
	c.Add(fakekube.Parse("{apiVersion: v1, kind: Secret, metadata: {name: render, namespace: prod}}"))
	return export(t, e)
}

func newImport(c *fakekube.Cluster, file archive.File) (*Import, *progress) {
	p := &progress{}
	return &Import{Cluster: &Cluster{client: c, mapper: c}, File: file, Holder: "me", Patience: time.Minute, Progress: p.record}, p
}

// runWithFakeTime runs a test with a fake clock.
func runWithFakeTime(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
}

func TestAnImportCreatesTheExportedObjectsInOrder(t *testing.T) {
	file, c := exported(t), target()
	i, p := newImport(c, file)
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var created []string
	for _, request := range c.Writes() {
		if key, ok := strings.CutPrefix(request, "create "); ok {
			created = append(created, key)
		}
	}
	want := []string{"Hold import-e1"}
	for _, o := range file.Objects() {
		key := object.KeyOf(o)
		if owner, uid := archive.Owner(o); key.Kind == "Binding" && c.Object(owner) != nil {
			key.Name = strings.Replace(key.Name, string(uid), string(c.Object(owner).GetUID()), 1)
		}
		want = append(want, key.String())
	}
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if c.Object(holdKey) != nil || p.messages[len(p.messages)-1] != "deleted the Hold; the controllers continue" {
		t.Errorf("the Hold exists, or the last message is wrong: %q", p.messages)
	}
	again := newExport(c)
	again.Secrets = true
	withoutGenerated := func(f archive.File) []string { // Bindings have other names, and the kinds of composites have no CustomResourceDefinition
		return without(without(names(f), "bindings"), "instances")
	}
	if diff := cmp.Diff(withoutGenerated(file), withoutGenerated(export(t, again))); diff != "" {
		t.Errorf("an export of the imported objects (-first +second):\n%s", diff)
	}
	for key, url := range map[object.Key]string{{Group: "shop.example.org", Kind: "XShop", Name: "corner-x"}: "https://corner"} {
		o := c.Object(key)
		if got, _, _ := unstructured.NestedString(o.Object, "status", "url"); got != url {
			t.Errorf("the status of %s is %v", key, o.Object["status"])
		}
		if by := o.GetAnnotations()[espalier.ImportAnnotation]; !strings.HasPrefix(by, "import-e1/uid-") {
			t.Errorf("%s was imported by %q", key, by)
		}
	}
	database := c.Object(databaseKey)
	binding := c.Object(object.Key{Group: bindingKind.Group, Kind: "Binding", Name: "u-" + string(database.GetUID())})
	if _, uid := archive.Owner(binding); uid != database.GetUID() {
		t.Errorf("the Binding names the owner %q", uid)
	}
	i, p = newImport(c, file)
	if err := i.Run(context.Background()); !errors.As(err, new(*ProblemsError)) || len(c.Writes()) > 0 {
		t.Errorf("a second import: %v, %q", err, p.messages)
	}
}

func TestAnImportRestoresManagedFieldsAndDeletions(t *testing.T) {
	file := exported(t, func(c *fakekube.Cluster) {
		c.Change(appKey, deleting)
		c.Change(databaseKey, func(o *unstructured.Unstructured) {
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply}})
		})
	})
	c := target()
	conflicts := 2
	c.Before = func(request string) error { // a conflict with another writer
		if request == "patch Database prod/web" && conflicts > 0 {
			conflicts--
			c.Change(databaseKey, func(*unstructured.Unstructured) {})
		}
		return nil
	}
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if fields := c.Object(databaseKey).GetManagedFields(); len(fields) != 1 || fields[0].Manager != "kubectl" {
		t.Errorf("the managed fields are %v", fields)
	}
	if c.Object(appKey).GetDeletionTimestamp() == nil {
		t.Error("the object that was being deleted is not deleted")
	}
}

func TestARevisionKeepsItsExportedNumber(t *testing.T) {
	file, c := exported(t), target()
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := archive.Number(c.Object(object.Key{Group: revisionKind.Group, Kind: revisionKind.Kind, Name: "shop-1"})); n != 3 {
		t.Errorf("the revision has number %d", n)
	}
}

func TestAnImportWithConflictsWritesNothing(t *testing.T) {
	binding := func(uid, owner string) string {
		return fmt.Sprintf("{apiVersion: espalier.dev/v1alpha1, kind: Binding, metadata: {name: k-tombstone}, spec: {phase: Bound, ref: gone-1, owner: {apiVersion: cloud.example.org/v1, kind: Database, namespace: prod, name: %s, uid: %s}}}", owner, uid)
	}
	cases := map[string]struct {
		given func(*fakekube.Cluster)
		want  []string
	}{
		"objects exist": {
			func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: web, namespace: prod}, spec: {size: large}}"))
				c.Add(fakekube.Parse("{apiVersion: cloud.example.org/v1, kind: Database, metadata: {name: web, namespace: prod}}"))
			}, []string{"Database prod/web exists; an import overwrites nothing", "App prod/web exists; an import overwrites nothing"},
		},
		"a revision of a former composition is left": {
			func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: shop-0, labels: {crossplane.io/composition-name: shop}}, spec: {revision: 9}}"))
			}, []string{"CompositionRevision shop-0 of Composition shop exists; delete it first, because instances would follow it"},
		},
		"an object is being deleted": {
			func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse(`{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: web, namespace: prod, finalizers: [x], deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {size: small}}`))
			}, []string{"App prod/web is being deleted: wait until it is gone"},
		},
		"a kind has no CustomResourceDefinition": {
			func(c *fakekube.Cluster) {
				c.Kinds[databaseKey.GroupKind()] = fakekube.Kind{Unserved: true}
				c.Remove(object.Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: "databases.cloud.example.org"})
			},
			[]string{
				"no matches for kind \"Database\" in version \"cloud.example.org/v1\", which objects of the export have: install its CustomResourceDefinition first",
				"ProviderConfig prod/default of cloud.example.org/v1 is not accepted: no provider of this cluster has configurations of this kind",
			},
		},
		"a kind has a CustomResourceDefinition and is never served": {
			func(c *fakekube.Cluster) { c.Kinds[databaseKey.GroupKind()] = fakekube.Kind{Unserved: true} },
			[]string{"no matches for kind \"Database\" in version \"cloud.example.org/v1\", which objects of the export have: install its CustomResourceDefinition first"},
		},
		"the controllers have never run": {
			func(c *fakekube.Cluster) { c.Kinds[holdKind.GroupKind()] = fakekube.Kind{Unserved: true} },
			[]string{"no matches for kind \"Hold\" in version \"espalier.dev/v1alpha1\", which an import needs: the controllers have never run here, or are too old. Start them with 'espalier run' or 'espalier up'"},
		},
		"another import is in progress": {
			func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: other}, spec: {import: e0}}"))
			}, []string{"another import is in progress or was interrupted, see Hold other: abort it with --abort"},
		},
		"the external resource is bound to another managed resource": {
			func(c *fakekube.Cluster) { c.Add(fakekube.Parse(binding("db-9", "other"))) },
			[]string{"Binding k-tombstone exists, of Database prod/other in phase Bound; an import overwrites nothing"},
		},
		"the external resource is reserved under another name": {
			func(c *fakekube.Cluster) {
				o := fakekube.Parse(binding("db-9", "other"))
				o.SetName("k-other")
				_ = unstructured.SetNestedMap(o.Object, map[string]any{"scope": "eu", "type": "db"}, "spec", "key")
				_ = unstructured.SetNestedField(o.Object, "web-7", "spec", "ref")
				c.Add(o)
			}, []string{`Binding u-db-1: db "web-7" in eu is reserved by Database prod/other`},
		},
		"this import was interrupted": {
			func(c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: import-e1}, spec: {import: e1}}"))
				c.Add(fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: web, namespace: prod}}"))
			}, []string{"this import is in progress or was interrupted, see Hold import-e1: delete what it has created with --abort, and run it again"},
		},
	}
	file := exported(t)
	for name, tc := range cases {
		runWithFakeTime(t, name, func(t *testing.T) {
			c := target()
			tc.given(c)
			i, _ := newImport(c, file)
			err := i.Run(context.Background())
			var problems *ProblemsError
			if !errors.As(err, &problems) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(tc.want, problems.Problems); diff != "" || !strings.Contains(err.Error(), tc.want[0]) {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if writes := c.Writes(); len(writes) > 0 {
				t.Errorf("the import wrote %q", writes)
			}
			i, _ = newImport(c, file)
			if _, err := i.Plan(context.Background()); !errors.As(err, &problems) {
				t.Errorf("Plan returned %v", err)
			}
		})
	}
}

// TestManyProblemsAreListedInLinearMemory has as many problems as a file with the same object again and again.
func TestManyProblemsAreListedInLinearMemory(t *testing.T) {
	err := &ProblemsError{Problems: slices.Repeat([]string{"ConfigMap prod/web appears twice"}, 20_000)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := err.Error()
	runtime.ReadMemStats(&after)
	if n := strings.Count(text, "\n"); n != 20_000 {
		t.Errorf("%d problems are listed", n)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
		t.Errorf("a text of %d bytes takes %d bytes of memory", len(text), used)
	}
}

func TestAPlanListsMissingObjects(t *testing.T) {
	file, c := exported(t), target()
	c.Add(fakekube.Parse("{apiVersion: v1, kind: Namespace, metadata: {name: prod}}"))
	c.Add(fakekube.Parse("{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: mine}, spec: {reason: maintenance}}"))
	i, p := newImport(c, file)
	steps, err := i.Plan(context.Background())
	if err != nil || steps[0].String() != "create Namespace dev" || steps[1].String() != "keep   Namespace prod" || len(steps) != len(file.Objects()) {
		t.Errorf("got %v, %q", err, steps)
	}
	if writes := without(c.Writes(), "dry-run "); len(writes) > 0 || !slices.Contains(p.messages, "Hold mine exists, too: the controllers stay suspended until it is deleted") {
		t.Errorf("it wrote %q, and its messages are %q", writes, p.messages)
	}
}

var errUnavailable = errors.New("the API server is unavailable")

// TestAnInterruptedImportIsAbortedAndRepeated interrupts an import before or after each of its writes.
func TestAnInterruptedImportIsAbortedAndRepeated(t *testing.T) {
	file := exported(t, func(c *fakekube.Cluster) { c.Change(appKey, deleting) })
	whole := target()
	i, _ := newImport(whole, file)
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	want, writes := whole.Keys(), len(without(whole.Writes(), "dry-run "))
	for _, after := range []bool{false, true} {
		runWithFakeTime(t, fmt.Sprintf("interrupted after the write: %t", after), func(t *testing.T) {
			for n := 1; n <= writes; n++ {
				c := target()
				count := 0
				fail := func(request string) error {
					if strings.HasPrefix(request, "get ") || strings.HasPrefix(request, "list ") || strings.HasPrefix(request, "dry-run ") {
						return nil
					}
					if count++; count >= n {
						return errUnavailable
					}
					return nil
				}
				if after {
					c.After = fail
				} else {
					c.Before = fail
				}
				i, _ := newImport(c, file)
				if err := i.Run(context.Background()); !errors.Is(err, errUnavailable) {
					t.Fatalf("interrupted in write %d: %v", n, err)
				}
				if ended := after && n == writes; (c.Object(holdKey) == nil) != (ended || n == 1 && !after) {
					t.Errorf("interrupted in write %d: the Hold exists: %t", n, c.Object(holdKey) != nil)
				}
				c.Before, c.After = nil, nil
				i, _ = newImport(c, file)
				i.Holder = "another"
				if ended := after && n == writes; ended {
					continue
				}
				if c.Object(holdKey) != nil {
					if err := i.Run(context.Background()); !errors.As(err, new(*ProblemsError)) {
						t.Fatalf("interrupted in write %d, and not aborted: %v", n, err)
					}
					if err := i.Abort(context.Background()); err != nil {
						t.Fatalf("interrupted in write %d, and aborted: %v", n, err)
					}
				}
				if err := i.Run(context.Background()); err != nil {
					t.Fatalf("interrupted in write %d, aborted, and repeated: %v", n, err)
				}
				if diff := cmp.Diff(len(want), len(c.Keys())); diff != "" {
					t.Errorf("interrupted in write %d: the objects are %v", n, c.Keys())
				}
			}
		})
	}
}

func TestAnImportFailsWhereAReadFails(t *testing.T) {
	file := exported(t)
	c := target()
	reads := 0
	c.Before = func(string) error { reads++; return nil }
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= reads; n++ {
		c, count := target(), 0
		c.Before = func(string) error {
			if count++; count == n {
				return errUnavailable
			}
			return nil
		}
		i, _ := newImport(c, file)
		if err := i.Run(context.Background()); err != nil && !errors.Is(err, errUnavailable) {
			t.Errorf("request %d fails: got %v", n, err)
		} else if err == nil && !strings.HasPrefix(c.Requests[n-1], "get ") {
			t.Errorf("%q fails: got no error", c.Requests[n-1])
		}
	}
}

func TestAnImportStopsWhenAnotherAbortsIt(t *testing.T) {
	file := exported(t)
	for name, given := range map[string]func(*fakekube.Cluster){
		"another process has begun to abort it": func(c *fakekube.Cluster) {
			c.Change(holdKey, func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, "another", "spec", "holder")
			})
		},
		"another process has aborted it": func(c *fakekube.Cluster) { c.Remove(holdKey) },
	} {
		runWithFakeTime(t, name, func(t *testing.T) {
			c := target()
			c.Before = func(request string) error {
				if request == "create App dev/test" {
					<-time.After(2 * checkEvery) // the interval of its checks
					given(c)
				}
				return nil
			}
			i, _ := newImport(c, file)
			if err := i.Run(context.Background()); !errors.Is(err, ErrTakenOver) {
				t.Errorf("got %v", err)
			}
			if c.Object(appKey) != nil {
				t.Error("the import goes on writing")
			}
		})
	}
}

// TestAnImportFindsWhatAnotherClientCreates has another client create an object, or the Hold, between the plan and the write.
func TestAnImportFindsWhatAnotherClientCreates(t *testing.T) {
	file := exported(t)
	cases := map[string]struct {
		request string // at which the object appears
		object  string
		check   func(error) bool
		held    bool
	}{
		"another import of the file has begun": {
			"create " + holdKey.String(), "{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: import-e1}, spec: {import: e1, holder: other}}",
			func(err error) bool {
				return apierrors.IsAlreadyExists(err) && strings.HasPrefix(err.Error(), "another process has begun this import: ")
			}, true,
		},
		"an object exists": {
			"create App dev/test", "{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: test, namespace: dev}}",
			func(err error) bool { return errors.Is(err, ErrChanged) && strings.Contains(err.Error(), heldAdvice) }, true,
		},
		"a namespace exists": {
			"create Namespace dev", "{apiVersion: v1, kind: Namespace, metadata: {name: dev}}", func(err error) bool { return err == nil }, false,
		},
	}
	for name, tc := range cases {
		runWithFakeTime(t, name, func(t *testing.T) {
			c := target()
			once := true
			c.Before = func(request string) error {
				if request == tc.request && once {
					once = false
					c.Add(fakekube.Parse(tc.object))
				}
				return nil
			}
			i, _ := newImport(c, file)
			if err := i.Run(context.Background()); !tc.check(err) {
				t.Errorf("got %v", err)
			}
			if held := c.Object(holdKey) != nil; once || held != tc.held {
				t.Errorf("the object appeared: %t; the controllers stay suspended: %t", !once, held)
			}
		})
	}
}

func TestAConflictOverTheHoldIsRetried(t *testing.T) {
	file := exported(t)
	runWithFakeTime(t, "an abort", func(t *testing.T) {
		c := interrupted(t, file)
		changes := map[string]int{}
		c.Before = func(request string) error {
			verb, about, _ := strings.Cut(request, " ")
			if about == holdKey.String() && (verb == "update" || verb == "delete") && changes[verb] == 0 {
				changes[verb]++
				c.Change(holdKey, func(o *unstructured.Unstructured) {
					_ = unstructured.SetNestedField(o.Object, fmt.Sprint(verb), "status", "restingSince")
				})
			}
			return nil
		}
		i, _ := newImport(c, file)
		if err := i.Abort(context.Background()); err != nil || c.Object(holdKey) != nil {
			t.Errorf("got %v", err)
		}
		if changes["update"] != 1 || changes["delete"] != 1 {
			t.Errorf("the Hold was changed %v", changes)
		}
	})
}

func TestAnImportWaitsForTheKindsThatItDefines(t *testing.T) {
	file := exported(t)
	app := appKey.GroupKind()
	crdKey := object.Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: "apps.kro.run"}
	established := func(status string) func(*fakekube.Cluster) {
		return func(c *fakekube.Cluster) {
			c.Change(crdKey, func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "Established", "status": status}}, "status", "conditions")
			})
		}
	}
	cases := map[string]struct {
		reason string
		given  func(*fakekube.Cluster)
		later  func(*fakekube.Cluster)
		want   string
	}{
		"the kind is served later": {
			"its controller creates the CustomResourceDefinition",
			func(c *fakekube.Cluster) { c.Kinds[app] = fakekube.Kind{Unserved: true} },
			func(c *fakekube.Cluster) { delete(c.Kinds, app) }, "",
		},
		"the kind is established later": {
			"the API server takes a moment",
			established("False"), established("True"), "",
		},
		"the kind is never served": {
			"the status of its definition says why",
			func(c *fakekube.Cluster) { c.Kinds[app] = fakekube.Kind{Unserved: true} },
			func(c *fakekube.Cluster) {
				c.Change(object.Key{Group: "kro.run", Kind: "ResourceGraphDefinition", Name: "apps"}, func(o *unstructured.Unstructured) {
					_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "Ready", "status": "False", "message": "spec.resources[0] is wrong"}}, "status", "conditions")
				})
			}, "App of kro.run/v1alpha1: ResourceGraphDefinition apps: spec.resources[0] is wrong",
		},
		"no controller runs": {
			"the controllers have to be started",
			func(c *fakekube.Cluster) { c.Kinds[app] = fakekube.Kind{Unserved: true} },
			func(*fakekube.Cluster) {}, "App of kro.run/v1alpha1: the controllers might not be running: start them with 'espalier run'",
		},
	}
	for name, tc := range cases {
		runWithFakeTime(t, name, func(t *testing.T) {
			c := target()
			tc.given(c)
			later, began := tc.later, time.Now()
			c.Before = func(string) error {
				if later != nil && time.Since(began) > 10*time.Second {
					later(c)
					later = nil
				}
				return nil
			}
			i, p := newImport(c, file)
			err := i.Run(context.Background())
			var kinds *KindsError
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%s: %v", tc.reason, err)
			case tc.want != "" && (!errors.As(err, &kinds) || kinds.Waits[0] != tc.want || !strings.Contains(err.Error(), tc.want) || c.Object(holdKey) == nil):
				t.Errorf("%s: %v", tc.reason, err)
			}
			if !strings.Contains(strings.Join(p.messages, "\n"), "waiting until 1 kind is served") {
				t.Errorf("the messages are %q", p.messages)
			}
		})
	}
	runWithFakeTime(t, "the context ends", func(t *testing.T) {
		c := target()
		c.Kinds[app] = fakekube.Kind{Unserved: true}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		i, _ := newImport(c, file)
		if err := i.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnObjectIsCreatedOnceItsKindAcceptsObjects(t *testing.T) {
	file := exported(t)
	for name, tc := range map[string]struct {
		after time.Duration
		fails error
		ok    bool
	}{
		"after seconds": {3 * time.Second, apierrors.NewTooManyRequests("storage is initializing", 1), true},
		"never":         {time.Hour, apierrors.NewTooManyRequests("storage is initializing", 1), false},
	} {
		runWithFakeTime(t, name, func(t *testing.T) {
			c, began := target(), time.Now()
			c.Before = func(request string) error {
				if request == "create App dev/test" && time.Since(began) < tc.after {
					return tc.fails
				}
				return nil
			}
			i, _ := newImport(c, file)
			if err := i.Run(context.Background()); (err == nil) != tc.ok {
				t.Errorf("got %v", err)
			}
		})
	}
	runWithFakeTime(t, "the answer is lost", func(t *testing.T) {
		c, once := target(), true
		c.After = func(request string) error {
			if request == "create App dev/test" && once {
				once = false
				return apierrors.NewTooManyRequests("storage is initializing", 1)
			}
			return nil
		}
		i, _ := newImport(c, file)
		if err := i.Run(context.Background()); err != nil || once {
			t.Errorf("got %v", err)
		}
	})
}

// interrupted returns a cluster with an import of a file that failed near its end.
func interrupted(t *testing.T, file archive.File) *fakekube.Cluster {
	t.Helper()
	c := target()
	c.Before = failing("create Usage prod/ledger", errUnavailable)
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); !errors.Is(err, errUnavailable) {
		t.Fatal(err)
	}
	c.Before = nil
	c.Writes()
	return c
}

func TestAbortDeletesImportedObjects(t *testing.T) {
	file := exported(t)
	runWithFakeTime(t, "all objects except namespaces are deleted, in reverse order", func(t *testing.T) {
		c := interrupted(t, file)
		c.Change(holdKey, func(o *unstructured.Unstructured) {
			o.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)))
		})
		c.Writes()
		i, p := newImport(c, file)
		if err := i.Abort(context.Background()); err != nil {
			t.Fatal(err)
		}
		var deleted []string
		for _, request := range c.Writes() {
			if key, ok := strings.CutPrefix(request, "delete "); ok {
				deleted = append(deleted, strings.Fields(key)[0])
			}
		}
		want := []string{
			"XShop", "Shop", "App", "App", "Binding", "Binding", "Binding", "Database", "Database", "Secret", "Secret", "ProviderConfig",
			"ResourceGraphDefinition", "CompositeResourceDefinition", "Composition", "GraphRevision", "CompositionRevision", "Function", "Function",
			"EnvironmentConfig", "Hold",
		}
		if diff := cmp.Diff(want, deleted); diff != "" {
			t.Errorf("deleted (-want +got):\n%s", diff)
		}
		left := target()
		left.Add(fakekube.Parse("{apiVersion: v1, kind: Namespace, metadata: {name: prod}}"))
		left.Add(fakekube.Parse("{apiVersion: v1, kind: Namespace, metadata: {name: dev}}"))
		if diff := cmp.Diff(left.Keys(), c.Keys()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"aborting the import that began at 2026-05-01T10:00:00Z", "deleted 20 objects"}, p.messages); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
	runWithFakeTime(t, "objects of other writers stay", func(t *testing.T) {
		c := interrupted(t, file)
		c.Change(appKey, func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
		i, _ := newImport(c, file)
		if err := i.Abort(context.Background()); err != nil || c.Object(appKey) == nil {
			t.Errorf("got %v", err)
		}
	})
	runWithFakeTime(t, "a kind that is not served has no objects", func(t *testing.T) {
		c := interrupted(t, file)
		c.Kinds[appKey.GroupKind()] = fakekube.Kind{Unserved: true}
		i, _ := newImport(c, file)
		if err := i.Abort(context.Background()); err != nil {
			t.Errorf("got %v", err)
		}
	})
	runWithFakeTime(t, "no import is in progress", func(t *testing.T) {
		for _, c := range []*fakekube.Cluster{target(), func() *fakekube.Cluster {
			c := target()
			c.Kinds[holdKind.GroupKind()] = fakekube.Kind{Unserved: true}
			return c
		}()} {
			i, _ := newImport(c, file)
			if err := i.Abort(context.Background()); !errors.Is(err, ErrNothingHeld) {
				t.Errorf("got %v", err)
			}
		}
	})
	runWithFakeTime(t, "after a failure it can be repeated", func(t *testing.T) {
		for n := 1; ; n++ {
			c, count, failed := interrupted(t, file), 0, ""
			c.Before = func(request string) error {
				if count++; count == n {
					failed = request
					return errUnavailable
				}
				return nil
			}
			i, _ := newImport(c, file)
			err := i.Abort(context.Background())
			if failed == "" {
				if err != nil || n < 40 {
					t.Errorf("after %d requests: %v", n, err)
				}
				return
			}
			if !errors.Is(err, errUnavailable) {
				t.Errorf("%q fails: got %v", failed, err)
			}
			c.Before = nil
			i, _ = newImport(c, file)
			if err := i.Abort(context.Background()); err != nil {
				t.Errorf("repeated after %q failed: %v", failed, err)
			}
		}
	})
}

// TestAnAbortCountsWhatControllersDelete has the controller of definitions delete a revision with its definition.
func TestAnAbortCountsWhatControllersDelete(t *testing.T) {
	file := exported(t)
	runWithFakeTime(t, "a revision goes with its definition", func(t *testing.T) {
		c := interrupted(t, file)
		c.After = func(request string) error {
			if request == "delete ResourceGraphDefinition apps" {
				c.Remove(object.Key{Group: graphRevisionKind.Group, Kind: graphRevisionKind.Kind, Name: "apps-1"})
			}
			return nil
		}
		i, p := newImport(c, file)
		if err := i.Abort(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := p.messages[len(p.messages)-1]; got != "deleted 20 objects" {
			t.Errorf("the last message is %q", got)
		}
	})
}

// TestAnAbortDeletesWhatIsStillCreated aborts an import whose process goes on until its next check of the Hold.
func TestAnAbortDeletesWhatIsStillCreated(t *testing.T) {
	file := exported(t)
	runWithFakeTime(t, "the process of the import is alive", func(t *testing.T) {
		c := target()
		reached := make(chan struct{})
		c.Before = func(request string) error {
			if request == "create Database prod/web" {
				close(reached)
				<-time.After(checkEvery / 2)
			}
			return nil
		}
		former, _ := newImport(c, file)
		ended := make(chan error, 1)
		go func() { ended <- former.Run(context.Background()) }()
		<-reached
		i, _ := newImport(c, file)
		i.Holder = "another"
		if err := i.Abort(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil && !errors.Is(err, ErrTakenOver) {
			t.Errorf("the import ends with %v", err)
		}
		for _, key := range []object.Key{databaseKey, appKey} {
			if c.Object(key) != nil {
				t.Errorf("%s is left", key)
			}
		}
	})
}

// TestAFailedImportSaysThatTheControllersAreSuspended fails an import after its Hold is created.
func TestAFailedImportSaysThatTheControllersAreSuspended(t *testing.T) {
	file := exported(t)
	c := target()
	c.Before = failing("create Usage prod/ledger", errUnavailable)
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); !errors.Is(err, errUnavailable) || !strings.Contains(err.Error(), heldAdvice) {
		t.Errorf("got %v", err)
	}
}

func TestAPlanCountsAllSteps(t *testing.T) {
	file := exported(t, func(c *fakekube.Cluster) { c.Change(appKey, deleting) })
	i, p := newImport(target(), file)
	if _, err := i.Plan(context.Background()); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d objects to create, 1 of them to delete again", len(file.Objects())); !slices.Contains(p.messages, want) {
		t.Errorf("got %q", p.messages)
	}
}
