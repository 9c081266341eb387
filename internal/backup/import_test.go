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
	"github.com/espalier-dev/espalier/internal/backup/archive"
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
	if err := i.Run(context.Background()); err != nil || len(c.Writes()) > 0 {
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
	revision := object.Key{Group: revisionKind.Group, Kind: revisionKind.Kind, Name: "shop-1"}
	file, c := exported(t), target()
	made := find(file, revision).DeepCopy()
	_ = unstructured.SetNestedField(made.Object, int64(1), "spec", "revision")
	c.Add(made) // by its controller, since its composition is there
	conflicts := 1
	c.Before = func(request string) error {
		if request == "patch "+revision.String() && conflicts > 0 {
			conflicts--
			c.Change(revision, func(*unstructured.Unstructured) {})
		}
		return nil
	}
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := archive.Number(c.Object(revision)); n != 3 {
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
		"an object differs": {
			func(c *fakekube.Cluster) {
				o := fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: web, namespace: prod}, spec: {size: large}}")
				c.Add(o)
			}, []string{"App prod/web exists and differs in spec.size; an import overwrites nothing"},
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
			}, []string{"another import is in progress or was interrupted, see Hold other: finish it first by running it again, or abort it with --abort"},
		},
		"the external resource is bound to another managed resource": {
			func(c *fakekube.Cluster) { c.Add(fakekube.Parse(binding("db-9", "other"))) },
			[]string{"Binding k-tombstone: the key of the external resource of Database prod/gone is reserved by Database prod/other"},
		},
		"the external resource is bound to an earlier object of the name": {
			func(c *fakekube.Cluster) { c.Add(fakekube.Parse(binding("db-9", "gone"))) },
			[]string{"Binding k-tombstone: the key of the external resource of Database prod/gone is reserved by an earlier object of the same name, in phase Bound: wait until its deletion ends"},
		},
		"the managed resource is bound to another external resource": {
			func(c *fakekube.Cluster) {
				o := fakekube.Parse(binding("db-3", "gone"))
				_ = unstructured.SetNestedField(o.Object, "else", "spec", "ref")
				c.Add(o)
			}, []string{"Binding k-tombstone: Database prod/gone is bound to another external resource"},
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
	if writes := without(c.Writes(), "dry-run "); len(writes) > 0 || !slices.Contains(p.messages, "Hold mine exists, too: the controllers stay paused until it is deleted") {
		t.Errorf("it wrote %q, and its messages are %q", writes, p.messages)
	}
}

var errUnavailable = errors.New("the API server is unavailable")

// TestAnImportThatWasInterruptedIsResumed interrupts an import before or after each of its writes;
// the next import creates the remaining objects.
func TestAnImportThatWasInterruptedIsResumed(t *testing.T) {
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
				if err := i.Run(context.Background()); err != nil {
					t.Fatalf("interrupted in write %d, and resumed: %v", n, err)
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

func TestAnImportStopsWhenAnotherHasTakenOver(t *testing.T) {
	file := exported(t)
	for name, given := range map[string]func(*fakekube.Cluster){
		"another import has taken over": func(c *fakekube.Cluster) {
			c.Change(holdKey, func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, "another", "spec", "holder")
			})
		},
		"another import has ended": func(c *fakekube.Cluster) { c.Remove(holdKey) },
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

// TestAnImportPlansAgainUnderItsHold lets another import of the same export end, or somebody create an
// object of it, between the plan and the Hold.
func TestAnImportPlansAgainUnderItsHold(t *testing.T) {
	file := exported(t)
	cases := map[string]struct {
		meanwhile func(*testing.T, *fakekube.Cluster)
		check     func(error) bool
	}{
		"another import has ended": {
			func(t *testing.T, c *fakekube.Cluster) {
				other, _ := newImport(c, file)
				other.Holder = "other"
				if err := other.Run(context.Background()); err != nil {
					t.Errorf("the other import: %v", err)
				}
			},
			func(err error) bool { return err == nil },
		},
		"somebody has created an object of it": {
			func(_ *testing.T, c *fakekube.Cluster) {
				c.Add(fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: apps}, spec: {schema: {kind: Other}}}"))
			},
			func(err error) bool {
				problems := new(ProblemsError)
				return errors.As(err, &problems) && !problems.Held
			},
		},
	}
	for name, tc := range cases {
		runWithFakeTime(t, name, func(t *testing.T) {
			c := target()
			once := true
			c.Before = func(request string) error {
				if request == "create "+holdKey.String() && once {
					once = false
					tc.meanwhile(t, c)
				}
				return nil
			}
			i, _ := newImport(c, file)
			if err := i.Run(context.Background()); !tc.check(err) {
				t.Errorf("got %v", err)
			}
			if c.Object(holdKey) != nil {
				t.Error("the controllers stay paused")
			}
		})
	}
}

func TestAConflictOverTheHoldIsRetried(t *testing.T) {
	file, c := exported(t), target()
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
	c.Add(fakekube.Parse("{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: import-e1, creationTimestamp: \"2026-05-01T10:00:00Z\"}, spec: {import: e1, holder: former}}"))
	i, p := newImport(c, file)
	if err := i.Run(context.Background()); err != nil || c.Object(holdKey) != nil {
		t.Errorf("got %v", err)
	}
	if changes["update"] != 1 || changes["delete"] != 1 || !slices.Contains(p.messages, "continuing the import that began at 2026-05-01T10:00:00Z") {
		t.Errorf("the Hold was changed %v, and the messages are %q", changes, p.messages)
	}
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
			func(*fakekube.Cluster) {}, "App of kro.run/v1alpha1: the controllers may not be running: start them with 'espalier run'",
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
	c := target()
	c.Before = func(request string) error {
		if request == "create App dev/test" { // by another import
			c.Add(find(file, object.Key{Group: "kro.run", Kind: "App", Namespace: "dev", Name: "test"}))
		}
		return nil
	}
	i, _ := newImport(c, file)
	if err := i.Run(context.Background()); err != nil {
		t.Errorf("an object that another import created: %v", err)
	}
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

// TestAFailedImportSaysThatTheControllersArePaused fails imports after their Hold is created.
func TestAFailedImportSaysThatTheControllersArePaused(t *testing.T) {
	file := exported(t)
	c := target()
	c.Before = failing("create Usage prod/ledger", errUnavailable)
	i, _ := newImport(c, file)
	const advice = "the Hold still pauses the controllers: run the import again to continue, or with --abort to delete what it has created"
	if err := i.Run(context.Background()); !errors.Is(err, errUnavailable) || !strings.Contains(err.Error(), advice) {
		t.Errorf("got %v", err)
	}
	c.Before = nil
	c.Add(fakekube.Parse("{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {name: ledger, namespace: prod}, spec: {reason: another}}"))
	for name, run := range map[string]func(*Import) error{
		"a run":  func(i *Import) error { return i.Run(context.Background()) },
		"a plan": func(i *Import) error { _, err := i.Plan(context.Background()); return err },
	} {
		i, _ = newImport(c, file)
		if err := run(i); err == nil || !strings.Contains(err.Error(), "exists and differs") || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s after that: %v", name, err)
		}
	}
	c.Remove(holdKey)
	i, _ = newImport(c, file)
	if err := i.Run(context.Background()); err == nil || strings.Contains(err.Error(), advice) {
		t.Errorf("without a Hold: %v", err)
	}
}

func TestAPlanCountsAllSteps(t *testing.T) {
	file := exported(t, func(c *fakekube.Cluster) { c.Change(appKey, deleting) })
	c := interrupted(t, file)
	i, p := newImport(c, file)
	if _, err := i.Plan(context.Background()); err != nil {
		t.Fatal(err)
	}
	const want = "1 object to create, 22 to finish, 1 to delete again, 0 exist already with the same content"
	if !slices.Contains(p.messages, want) {
		t.Errorf("got %q", p.messages)
	}
}
