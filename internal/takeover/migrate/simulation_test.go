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
	errTest  = errors.New("the API server is away")
	appKind  = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "App"}
	appKey   = object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "web"}
	childKey = object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "web"}
)

func TestAwaitIdle(t *testing.T) {
	cases := map[string]struct {
		reason string
		// at is what the controllers are at, after so long.
		at        func(since time.Duration) (pending int, made uint64, idle bool, serving error)
		ends      error
		ended     bool
		cancels   bool
		unsettled bool
		fails     string
		took      time.Duration
	}{
		"nothing to do": {
			reason: "it is waited for a while in which nothing happens",
			at:     func(time.Duration) (int, uint64, bool, error) { return 0, 0, true, nil },
			took:   time.Second,
		},
		"requests are made": {
			reason: "each begins the while again",
			at: func(since time.Duration) (int, uint64, bool, error) {
				return 0, uint64(min(since, 3*time.Second) / (500 * time.Millisecond)), true, nil
			},
			took: 4 * time.Second,
		},
		"a request awaits its answer":       {reason: "it isn't over", at: func(since time.Duration) (int, uint64, bool, error) { return 1, 0, true, nil }, unsettled: true, took: time.Minute},
		"something is queued":               {reason: "it isn't over", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, false, nil }, unsettled: true, took: time.Minute},
		"the controllers never start":       {reason: "why is said", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, fails: "after 1m0s: the API server is away", took: time.Minute},
		"the controllers fail":              {reason: "why is said", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, ended: true, ends: errTest, fails: "the API server is away"},
		"the controllers end by themselves": {reason: "they weren't to", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, ended: true, fails: "the controllers ended"},
		"the caller has no time":            {reason: "it ends at once", at: func(since time.Duration) (int, uint64, bool, error) { return 0, 0, true, errTest }, cancels: true, fails: "context canceled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				a := activity{
					serving: func() error { _, _, _, err := tc.at(time.Since(began)); return err },
					busy:    func() (int, uint64) { pending, made, _, _ := tc.at(time.Since(began)); return pending, made },
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
					t.Errorf("%s: it takes %s", tc.reason, took)
				}
				if tc.ended && len(ended) != 1 {
					t.Error("whoever waits for the end of the controllers waits for ever")
				}
			})
		})
	}
}

// family is a cluster with an App, a ConfigMap that it is composed of, and one that it isn't.
func family() *fakekube.Cluster {
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

// preferring is a cluster that has a preferred version of each kind.
type preferring struct{ *fakekube.Cluster }

func (p preferring) Preferred(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error) {
	gvk, standing, err := p.Availability(ctx, gk)
	if err == nil && standing == kube.Gone {
		err = &kube.NoKindMatchError{Kind: gvk}
	}
	return gvk, err
}

func childrenIn(c *fakekube.Cluster) func(schema.GroupKind) ([]unstructured.Unstructured, error) {
	return func(gk schema.GroupKind) ([]unstructured.Unstructured, error) {
		return children(context.Background(), c, preferring{c}, gk)
	}
}

func TestObservedAreInstancesTheirPartsAndWhatWouldChange(t *testing.T) {
	c := family()
	app, made := c.Object(appKey), fakekube.Parse("{apiVersion: v1, kind: Secret, metadata: {name: new, namespace: prod}}")
	out, err := observed(served([]schema.GroupVersionKind{appKind}, c), []dryrun.Change{
		{Before: app, After: app, Deletion: true}, {After: made}, {Before: c.Object(object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "other"})},
	}, childrenIn(c))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Name             string
		Was, Is          bool
		Served, Deletion bool
	}
	var got []row
	for _, o := range out {
		about := o.After
		if about == nil {
			about = o.Before
		}
		got = append(got, row{object.KeyOf(about).String(), o.Before != nil, o.After != nil, o.Served, o.Deletion})
	}
	want := []row{
		{"App prod/web", true, true, true, true}, {"Secret prod/new", false, true, false, false},
		{"ConfigMap prod/other", true, false, false, false}, {"ConfigMap prod/web", true, true, false, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPartsThatCannotBeListedEndAPlan(t *testing.T) {
	c := family()
	instances := served([]schema.GroupVersionKind{appKind}, c)
	configMap := schema.GroupKind{Kind: "ConfigMap"}
	for name, given := range map[string]func(){
		"their kind can't be found": func() { c.Kinds[configMap] = fakekube.Kind{Err: errTest} },
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
	c := family()
	c.Kinds[appKind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Syncing}}
	if got := served([]schema.GroupVersionKind{appKind}, c); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestNoPlanIsMadeWhileThereIsAHold(t *testing.T) {
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
		t.Errorf("where Holds can't be listed: %v", err)
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
	NoEvents{}.Event(nil, "", "", "") // is recorded nowhere
}

func TestWhatFormerEnginesAreAtIsNoted(t *testing.T) {
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
		t.Errorf("where nothing can be read: %q", got)
	}
}
