package migrate

import (
	"context"
	"errors"
	"testing"

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
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var (
	errTest  = errors.New("the API server is unavailable")
	appKind  = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "App"}
	appKey   = object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "web"}
	childKey = object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "web"}
)

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
		Name                 string
		Before, After        bool
		Reconciled, Deletion bool
	}
	var got []row
	for _, o := range out {
		got = append(got, row{object.KeyOf(o.Latest()).String(), o.Before != nil, o.After != nil, o.Reconciled, o.Deletion})
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
{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: gcp}}
---
{apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: web, namespace: prod}}`)
	want := []string{
		"kro may be running: Deployment kro/kro has replicas. Scale it to zero before Espalier starts; two engines undo each other's work",
		"objects of graphs.kro.run (1) stay unchanged: Espalier serves them only where graphs is set in the file of --config, here and for espalier run",
		"Crossplane may be running: Deployment crossplane-system/crossplane has replicas. Scale it to zero before Espalier starts; two engines undo each other's work",
		"objects of providers.pkg.crossplane.io (2) stay unchanged: Espalier serves packages and operations only where packages.enabled and operations.enabled are set. Providers keep running, but are no longer upgraded",
	}
	if diff := cmp.Diff(want, Notes(t.Context(), c, []managedfields.Engine{managedfields.KRO, managedfields.Crossplane}, false)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if got := Notes(t.Context(), c, []managedfields.Engine{managedfields.KRO}, true); len(got) != 1 {
		t.Errorf("Graphs are served: got %q", got)
	}
	c.Before = func(string) error { return errTest }
	if got := Notes(t.Context(), c, []managedfields.Engine{managedfields.KRO, managedfields.Crossplane}, false); len(got) > 0 {
		t.Errorf("lists fail: got %q", got)
	}
}
