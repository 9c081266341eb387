package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var (
	errTest  = errors.New("the API server is unavailable")
	appKind  = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "App"}
	appKey   = object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "web"}
	childKey = object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "web"}
)

func TestAwaitIdle(t *testing.T) {
	cases := map[string]struct {
		reason string
		// at returns the activity of the controllers after a time.
		at        func(since time.Duration) (pending int, requests uint64, idle bool, serving error)
		ends      error
		ended     bool
		cancels   bool
		unsettled bool
		fails     string
		took      time.Duration
	}{
		"nothing to do": {
			reason: "it waits for an interval without activity",
			at:     func(time.Duration) (int, uint64, bool, error) { return 0, 0, true, nil },
			took:   time.Second,
		},
		"requests are made": {
			reason: "each restarts the interval",
			at: func(since time.Duration) (int, uint64, bool, error) {
				return 0, uint64(min(since, 3*time.Second) / (500 * time.Millisecond)), true, nil
			},
			took: 4 * time.Second,
		},
		"a request is in flight":            {reason: "the controllers are busy", at: func(since time.Duration) (int, uint64, bool, error) { return 1, 0, true, nil }, unsettled: true, took: time.Minute},
		"an object is queued":               {reason: "the controllers are busy", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, false, nil }, unsettled: true, took: time.Minute},
		"the controllers never start":       {reason: "the error says why", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, fails: "after 1m0s: the API server is unavailable", took: time.Minute},
		"the controllers fail":              {reason: "the error says why", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, ended: true, ends: errTest, fails: "the API server is unavailable"},
		"the controllers end by themselves": {reason: "they should run until the plan is complete", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, ended: true, fails: "the controllers ended"},
		"the context ends":                  {reason: "it returns at once", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, cancels: true, fails: "context canceled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				a := activity{
					serving: func() error { _, _, _, err := tc.at(time.Since(began)); return err },
					busy:    func() (int, uint64) { pending, requests, _, _ := tc.at(time.Since(began)); return pending, requests },
					idle:    func() bool { _, _, idle, _ := tc.at(time.Since(began)); return idle },
				}
				ended := make(chan error, 1)
				if tc.ended {
					ended <- tc.ends
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancels {
					cancel()
				}
				unsettled, err := awaitIdle(ctx, a, ended, time.Minute)
				if unsettled != tc.unsettled || (err == nil) != (tc.fails == "") || err != nil && err.Error() != tc.fails {
					t.Errorf("%s: unsettled %t, %v", tc.reason, unsettled, err)
				}
				if took := time.Since(began); took < tc.took || took > tc.took+2*pollInterval {
					t.Errorf("%s: it took %s", tc.reason, took)
				}
				if tc.ended && len(ended) != 1 {
					t.Error("the end of the controllers is lost for other readers")
				}
			})
		})
	}
}

// newApp is a cluster with an App, its child ConfigMap, and another ConfigMap.
func newApp() *fakekube.Cluster {
	c := fakekube.New(`
apiVersion: kro.run/v1alpha1
kind: App
metadata: {name: web, namespace: prod, uid: app-1, annotations: {applyset.kubernetes.io/contains-group-kinds: "ConfigMap,Gone.example.org"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: prod, uid: cm-1}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: prod, labels: {applyset.kubernetes.io/part-of: other}}}`)
	c.Change(childKey, func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: inventory.ApplySetID(appKey)})
	})
	c.Kinds[schema.GroupKind{Group: "example.org", Kind: "Gone"}] = fakekube.Kind{Unserved: true}
	c.Kinds[schema.GroupKind{Kind: "ConfigMap"}] = fakekube.Kind{Preferred: "v1"}
	return c
}

// withPreferred is a cluster with a preferred version of each kind.
type withPreferred struct{ *fakekube.Cluster }

func (p withPreferred) Preferred(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error) {
	gvk, availability, err := p.Availability(ctx, gk)
	if err == nil && availability == kube.Gone {
		err = &kube.NoKindMatchError{Kind: gvk}
	}
	return gvk, err
}

func childrenIn(c *fakekube.Cluster) func(schema.GroupKind) ([]unstructured.Unstructured, error) {
	return func(gk schema.GroupKind) ([]unstructured.Unstructured, error) {
		return children(context.Background(), c, withPreferred{c}, gk)
	}
}

func TestObservedAreInstancesChildrenAndChanges(t *testing.T) {
	c := newApp()
	app, created := c.Object(appKey), fakekube.Parse("{apiVersion: v1, kind: Secret, metadata: {name: new, namespace: prod}}")
	out, err := observed(served([]schema.GroupVersionKind{appKind}, c), []dryrun.Change{
		{Before: app, After: app, Deletion: true}, {After: created}, {Before: c.Object(object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "other"})},
	}, childrenIn(c))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Name             string
		Before, After    bool
		Served, Deletion bool
	}
	var got []row
	for _, o := range out {
		latest := o.After
		if latest == nil {
			latest = o.Before
		}
		got = append(got, row{object.KeyOf(latest).String(), o.Before != nil, o.After != nil, o.Served, o.Deletion})
	}
	want := []row{
		{"App prod/web", true, true, true, true}, {"Secret prod/new", false, true, false, false},
		{"ConfigMap prod/other", true, false, false, false}, {"ConfigMap prod/web", true, true, false, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPlanFailsWhereChildrenCannotBeListed(t *testing.T) {
	c := newApp()
	instances := served([]schema.GroupVersionKind{appKind}, c)
	configMap := schema.GroupKind{Kind: "ConfigMap"}
	for name, given := range map[string]func(){
		"discovery fails": func() { c.Kinds[configMap] = fakekube.Kind{Err: errTest} },
		"the list fails": func() {
			c.Kinds[configMap] = fakekube.Kind{Preferred: "v1"}
			c.Before = func(string) error { return errTest }
		},
	} {
		given()
		if _, err := observed(instances, nil, childrenIn(c)); !errors.Is(err, errTest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestObjectsOfAKindThatIsNotReadAreNotServed(t *testing.T) {
	c := newApp()
	c.Kinds[appKind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Syncing}}
	if got := served([]schema.GroupVersionKind{appKind}, c); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestAPlanIsRefusedUnderAHold(t *testing.T) {
	c := fakekube.New()
	if err := RefuseHeld(t.Context(), c); err != nil {
		t.Error(err)
	}
	c.Add(fakekube.Parse("{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: maintenance}}"))
	if err := RefuseHeld(t.Context(), c); err == nil || !strings.Contains(err.Error(), "Hold maintenance") {
		t.Errorf("got %v", err)
	}
	c.Before = func(string) error { return errTest }
	if err := RefuseHeld(t.Context(), c); err != nil {
		t.Errorf("Holds cannot be listed: got %v", err)
	}
}

func TestTheLastFailureOfEachObjectIsRecorded(t *testing.T) {
	o := &Failures{}
	fail := func(key object.Key, err error) {
		o.Observe(reconcile.Run{Key: key, Result: reconcile.Result{Err: err}})
	}
	fail(appKey, errTest)
	fail(childKey, errTest)
	fail(childKey, nil)
	fail(object.Key{Name: "ending"}, context.Canceled)
	if len(o.failed) != 1 || o.failed[appKey] == "" {
		t.Errorf("got %v", o.failed)
	}
	NoEvents{}.Event(nil, "", "", "") // has no effect
}

func TestNotesAboutFormerEngines(t *testing.T) {
	c := fakekube.New(`
{apiVersion: apps/v1, kind: Deployment, metadata: {name: crossplane, namespace: crossplane-system, labels: {app: crossplane}}, spec: {replicas: 1}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: stopped, namespace: crossplane-system, labels: {app: crossplane}}, spec: {replicas: 0}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: kro, namespace: kro, labels: {app.kubernetes.io/name: kro}}, spec: {}}
---
{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: aws}}
---
{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: gcp}}`)
	want := []string{
		"kro may be running: Deployment kro/kro has replicas. Scale it to zero before Espalier starts; two engines undo each other's work",
		"Crossplane may be running: Deployment crossplane-system/crossplane has replicas. Scale it to zero before Espalier starts; two engines undo each other's work",
		"objects of providers.pkg.crossplane.io (2) stay unchanged: Espalier does not serve these kinds. Providers keep running, but are no longer upgraded",
	}
	if diff := cmp.Diff(want, Notes(t.Context(), c, []managedfields.Engine{managedfields.KRO, managedfields.Crossplane})); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	c.Before = func(string) error { return errTest }
	if got := Notes(t.Context(), c, []managedfields.Engine{managedfields.KRO, managedfields.Crossplane}); len(got) > 0 {
		t.Errorf("lists fail: got %q", got)
	}
}
