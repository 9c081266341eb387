package migrate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var (
	errAway   = errors.New("connection refused")
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "thing", errors.New("no role permits it"))
)

// refuse returns a Before of fakekube that answers the requests with a prefix with an error.
func refuse(prefix string, err error) func(string) error {
	return func(request string) error {
		if strings.HasPrefix(request, prefix) {
			return err
		}
		return nil
	}
}

func optionsFor(c *fakekube.Cluster) server.ManagerOptions {
	return server.ManagerOptions{Options: manager.Options{Name: "espalier", Version: "test", Config: c.Config(), Log: logr.Discard(), HealthAddress: "0", MetricsAddress: "0"}, Settings: server.Settings{Workers: 1}}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

const (
	// foreignGraphs is the kind of definitions as kro installs it.
	foreignGraphs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: resourcegraphdefinitions.kro.run}
spec: {group: kro.run, names: {kind: ResourceGraphDefinition, plural: resourcegraphdefinitions}, scope: Cluster, versions: [{name: v1alpha1, served: true, storage: true}]}
status: {conditions: [{type: Established, status: "True"}]}
`
	kroDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: kro, namespace: kro-system, labels: {app.kubernetes.io/name: kro}}
spec: {replicas: 1}
`
	holdObject = "{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: import}}"
	holdKind   = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: holds.espalier.dev}
spec: {group: espalier.dev, names: {kind: Hold, plural: holds}, scope: Cluster, versions: [{name: v1alpha1, served: true, storage: true}]}
`
	graphDefinition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: apps}
spec: {schema: {apiVersion: v1alpha1, kind: App, spec: {size: integer}}, resources: []}
`
)

func TestAPlanOfATakeoverChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New(foreignGraphs, kroDeployment, graphDefinition)
		before := states(c)
		o := optionsFor(c)
		o.Dialects = []server.Dialect{server.Graph}
		found, err := PlanTakeover(t.Context(), o, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, states(c)); diff != "" {
			t.Errorf("the plan changes the cluster (-before +after):\n%s", diff)
		}
		var objects []string
		for _, o := range found.Objects {
			objects = append(objects, object.KeyOf(o.Latest()).String())
		}
		if !slices.Contains(objects, "ResourceGraphDefinition apps") || found.Unsettled {
			t.Errorf("the plan has %q, unsettled: %t, failed: %v", objects, found.Unsettled, found.Failed)
		}
		if notes := strings.Join(found.Notes, "\n"); !strings.HasPrefix(notes, "kro may be running: Deployment kro-system/kro has replicas") {
			t.Errorf("the notes are %q", notes)
		}
	})
}

// states are the objects of a cluster with their resource versions.
func states(c *fakekube.Cluster) map[string]string {
	out := map[string]string{}
	for _, key := range c.Keys() {
		out[key.String()] = c.Object(key).GetResourceVersion()
	}
	return out
}

func TestATakeoverIsNotPlanned(t *testing.T) {
	cases := map[string]struct {
		reason         string
		objects        []string
		before         func(string) error
		refused, fails string
	}{
		"while there is a Hold":    {"the controllers would do nothing", []string{holdKind, holdObject}, nil, "", "the Hold import suspends the controllers"},
		"if its kinds are refused": {"the controllers would not start", nil, refuse("dry-run apply CustomResourceDefinition", forbidden), "install CustomResourceDefinition ", ""},
		"without an API server":    {"nothing is known", nil, refuse("", errAway), "", "list CustomResourceDefinitions: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fakekube.New(tc.objects...)
				c.Before = tc.before
				o := optionsFor(c)
				o.Dialects = []server.Dialect{server.Graph}
				found, err := PlanTakeover(t.Context(), o, time.Minute)
				if got := message(err); !strings.HasPrefix(got, tc.fails) || (got == "") != (tc.fails == "") {
					t.Errorf("%s: the error is %q", tc.reason, got)
				}
				if got := message(found.Refused); !strings.HasPrefix(got, tc.refused) || (got == "") != (tc.refused == "") {
					t.Errorf("%s: refused is %q", tc.reason, got)
				}
				if len(found.Objects) > 0 {
					t.Errorf("%s: the plan has %d objects", tc.reason, len(found.Objects))
				}
			})
		})
	}
}
